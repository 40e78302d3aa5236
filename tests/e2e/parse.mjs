// Parses delivered requests with the parsers that receivers in JavaScript use.
//
// Input: [{"schema", "headers": {...}, "body": "<the request's body>"}, ...]
// Output: [[{"id", "type", "subject", "source", "data", ...}, ...], ...]: the events of each request

import { EventGridDeserializer } from "@azure/eventgrid";
import { CloudEvent, HTTP } from "cloudevents";
import { deepStrictEqual } from "node:assert";

const azure = new EventGridDeserializer();

// Bytes as base64: each parser has a class of its own for them.
const plain = (data) => (
  data instanceof Uint8Array ? { base64: Buffer.from(data).toString("base64") } : data);

async function parse({ schema, headers, body }) {
  if (schema === "EventGridSchema") {
    const events = await azure.deserializeEventGridEvents(body);
    return events.map(({ id, eventType, subject, topic, eventTime, data, dataVersion }) => (
      { id, type: eventType, subject, topic, time: eventTime, data, dataVersion }));
  }
  const parsed = HTTP.toEvent({ headers, body });
  const events = Array.isArray(parsed) ? parsed : [parsed];
  // Azure's parser must read the same out of it.
  const others = await azure.deserializeCloudEvents(body);
  return events.map((event, index) => {
    if (!(event instanceof CloudEvent) || !event.validate()) throw new Error("no CloudEvent");
    const { id, type, subject, source, time, region } = event;
    const [data, other] = [plain(event.data), others[index]];
    deepStrictEqual([other.id, other.type, other.source, other.subject, plain(other.data)],
      [id, type, source, subject, data]);
    return { id, type, subject, source, time, data, region };
  });
}

let input = "";
for await (const part of process.stdin) input += part;
const results = [];
for (const request of JSON.parse(input)) results.push(await parse(request));
process.stdout.write(JSON.stringify(results));
