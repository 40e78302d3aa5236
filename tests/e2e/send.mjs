// Sends events with Azure's and the CloudEvents SDK for JavaScript, and says what came of each send.
//
// Input: [{"client": "eventgrid" | "namespaces" | "cloudevents", "endpoint", "key", "schema",
//          "events": [{"id", "type", "subject", "data"}, ...], "credential": "key" | "sas",
//          "topic": <name, for namespaces>, "one": true | false,
//          "form": "binary" | "structured" | "batch"}, ...]; the last four may be absent.
//          With the schema "CustomEventSchema" events are sent as the objects that they are.
// Output: [{"ok": true} | {"error": <class>, "status", "code"}, ...]

import { AzureKeyCredential, AzureSASCredential, EventGridPublisherClient,
  generateSharedAccessSignature } from "@azure/eventgrid";
import namespaces from "@azure/eventgrid-namespaces";
import { CloudEvent, HTTP, emitterFor, Mode } from "cloudevents";

const SCHEMAS = { EventGridSchema: "EventGrid", CloudEventSchemaV1_0: "CloudEvent",
  CustomEventSchema: "Custom" };
const SOURCE = "/gridpost/e2e";
// One answer is enough to know it; the local stack speaks plain HTTP.
const OPTIONS = { allowInsecureConnection: true, retryOptions: { maxRetries: 0 } };

function build(schema, { id, type, subject, data, ...rest }) {
  if (schema === "CustomEventSchema") return { ...rest, id, type, subject, data };
  if (schema === "EventGridSchema") {
    return { id, eventType: type, subject, data, dataVersion: "1.0" };
  }
  return { id, type, source: SOURCE, subject, data, dataContentType: "application/json" };
}

async function byEventGrid({ endpoint, key, schema, credential, events }) {
  const secret = new AzureKeyCredential(key);
  const inAnHour = new Date(Date.now() + 3_600_000);
  const shown = credential === "sas"
    ? new AzureSASCredential(await generateSharedAccessSignature(endpoint, secret, inAnHour))
    : secret;
  const client = new EventGridPublisherClient(endpoint, SCHEMAS[schema], shown, OPTIONS);
  await client.send(events.map((event) => build(schema, event)));
}

async function byNamespaces({ endpoint, key, topic, events, one }) {
  const secret = new namespaces.AzureKeyCredential(key);
  const client = new namespaces.EventGridSenderClient(endpoint, secret, topic, OPTIONS);
  const built = events.map((event) => build("CloudEventSchemaV1_0", event));
  await client.sendEvents(one ? built[0] : built);
}

class Refused extends Error {
  constructor(status, body) {
    super(body);
    this.statusCode = status;
  }
}

async function post(endpoint, key, { headers, body }) {
  const answer = await fetch(endpoint, { method: "POST", body,
    headers: { ...headers, "aeg-sas-key": key } });
  const text = await answer.text();
  if (answer.status !== 200) throw new Refused(answer.status, text);
}

async function byCloudEvents({ endpoint, key, events, form }) {
  const cloudEvent = ({ id, type, subject, data }) => new CloudEvent({ id, type, subject, data,
    source: SOURCE, datacontenttype: "application/json", region: "eu" });
  const built = events.map(cloudEvent);
  if (form === "batch") {
    // The SDK reads batches and makes none: its events as JSON are one.
    const headers = { "content-type": "application/cloudevents-batch+json; charset=utf-8" };
    return post(endpoint, key, { headers, body: JSON.stringify(built) });
  }
  const mode = form === "binary" ? Mode.BINARY : Mode.STRUCTURED;
  const binding = { binary: HTTP.binary, structured: HTTP.structured };
  const emit = emitterFor((message) => post(endpoint, key, message), { binding, mode });
  for (const event of built) await emit(event);
}

const CLIENTS = { eventgrid: byEventGrid, namespaces: byNamespaces, cloudevents: byCloudEvents };

async function send(request) {
  try {
    await CLIENTS[request.client](request);
    return { ok: true };
  } catch (error) {
    return { error: error.name ?? String(error), status: error.statusCode ?? error.status ?? null,
      code: error.code ?? null, message: String(error.message ?? JSON.stringify(error)) };
  }
}

let input = "";
for await (const part of process.stdin) input += part;
const results = [];
for (const request of JSON.parse(input)) results.push(await send(request));
process.stdout.write(JSON.stringify(results));
