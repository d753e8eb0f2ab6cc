"""The version of this package.

Spec:      basic/lifecycle: `Implementation.version`
Not here:  the revisions of the protocol (revisions.py)
"""

__version__ = "0.2.0"
