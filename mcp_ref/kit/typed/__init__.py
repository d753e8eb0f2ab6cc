"""JSON and Python types: check values against types, project them to a revision, publish types as JSON Schema.

Contract: functions of values and types alone, without I/O and threads. What a stranger's value or schema may cost is
bounded. A value that does not fit is told by SchemaMismatch, with the place in it.

Door: `shapes.Since` and its like (notes on types), `checking.checker`, `checking.projector`,
`publishing.json_schema`, `handlers.inspect_handler`, `json_schema.prepare`, `json_text.weigh`,
`uri_template.UriTemplate`.
"""
