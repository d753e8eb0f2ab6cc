// Reads diagrams, a JSON array of texts, with Mermaid itself; prints for each its messages and actors, or an error.
import { readFileSync } from "node:fs";
import mermaid from "mermaid";

const told = [];
for (const text of JSON.parse(readFileSync(0, "utf8"))) {
  try {
    await mermaid.parse(text);
    const { db } = await mermaid.mermaidAPI.getDiagramFromText(text);
    const messages = db.getMessages().filter((each) => each.from && each.to && each.placement === undefined);
    told.push({ messages: messages.map((each) => each.message), actors: [...db.getActorKeys()] });
  } catch (problem) {
    told.push({ error: String(problem.message) });
  }
}
console.log(JSON.stringify(told));
