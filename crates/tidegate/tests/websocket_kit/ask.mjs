// ws-kit's packages, as a client of theirs would use them: node ask.mjs <node_modules> <address>
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [, , packages, address] = process.argv;
const { resolve } = createRequire(`${packages}/`);
const get = (name) => import(pathToFileURL(resolve(name)));
const { message, rpc, z } = await get("@ws-kit/zod");
const { ERROR_CODE_META, isStandardErrorCode } = await get("@ws-kit/core");
const { default: WebSocket } = await get("ws");

const Say = message("SAY", { text: z.string() });
const Said = message("SAID", { text: z.string() });
const Ping = message("PING");
const Pong = message("PONG");
const Add = rpc("ADD", { a: z.number(), b: z.number() }, "SUM", { sum: z.number() });
const Big = rpc("BIG", undefined, "PONG", undefined);
const Count = rpc("COUNT", { to: z.number() }, "COUNTED", { to: z.number() });
const Fail = rpc("FAIL", { code: z.string() }, "PONG", undefined);
const Wait = rpc("WAIT", undefined, "PONG", undefined);
const HowManyEnded = rpc("HOW_MANY_ENDED", undefined, "ENDED", { calls: z.number() });
const Nonsense = message("NONSENSE");

// The expected fields of an error. It has no other fields, and no retry time where ws-kit forbids one.
const payload = z.object({
  code: z.string().refine(isStandardErrorCode),
  message: z.string().min(1),
  details: z.record(z.string(), z.unknown()),
  retryable: z.boolean(),
  retryAfterMs: z.number().int().positive().optional(),
}).refine((error) => error.retryAfterMs === undefined || ERROR_CODE_META[error.code].retryAfterMsRule !== "forbidden");
const EventError = message("ERROR", payload);
const CallError = message("RPC_ERROR", payload, { correlationId: z.string() });

// A wait without a message fails with its description.
setTimeout(() => { throw new Error(`it never came; there is ${JSON.stringify(received)}`); }, 60_000).unref();

const socket = new WebSocket(address);
const received = [];
let wake = () => {};
socket.on("message", (data, isBinary) => {
  assert.equal(isBinary, false);
  received.push(JSON.parse(data));
  wake();
});
socket.on("close", (code) => assert.equal(code, 1000));
await new Promise((opened) => socket.on("open", opened));

// Returns the first matching message, which must be valid by its schema.
async function next(schema, id) {
  for (;;) {
    const at = received.findIndex(({ meta }) => meta.correlationId === id);
    if (at >= 0) {
      const [found] = received.splice(at, 1);
      if (!schema) return found;
      const parsed = schema.safeParse(found);
      assert(parsed.success, `${JSON.stringify(found)}: ${parsed.error}`);
      assert.equal(typeof found.meta.timestamp, "number");
      return parsed.data;
    }
    await new Promise((woken) => { wake = woken; });
  }
}

function send(schema, payload, correlationId) {
  const meta = { timestamp: Date.now(), ...(correlationId && { correlationId }) };
  const built = { type: schema.messageType, meta, ...(payload !== undefined && { payload }) };
  socket.send(JSON.stringify(schema.parse(built)));
}

let calls = 0;
function call(schema, payload) {
  const id = `call-${++calls}`;
  send(schema, payload, id);
  return id;
}
const answer = (schema, id) => next(schema.response, id);
const failure = async (id) => (await next(CallError, id)).payload;

// Events, with a payload and without one.
send(Say, { text: "hello" });
assert.equal((await next(Said)).payload.text, "hello");
send(Ping);
assert.equal((await next(Pong)).type, "PONG");

// Calls: each has its own answer, in any order.
const [one, two] = [call(Add, { a: 1, b: 2 }), call(Add, { a: 3, b: 4 })];
assert.equal((await answer(Add, two)).payload.sum, 7);
assert.equal((await answer(Add, one)).payload.sum, 3);

// Limits: the answer to a call has its id, and both answers have a retry time.
const limited = await failure(call(Add, { a: 5, b: 6 }));
assert.deepEqual(limited, {
  code: "RESOURCE_EXHAUSTED", message: "Rate limit exceeded", details: { observed: 1, limit: 2, policy: "send" },
  retryable: true, retryAfterMs: 2000,
});
send(Say, { text: "once more" });
assert.equal((await next(Said)).payload.text, "once more");
send(Say, { text: "too much" });
assert.deepEqual((await next(EventError)).payload, limited);
// A cost above the capacity has no retry time.
const never = await failure(call(Big));
assert.deepEqual([never.code, never.retryable, never.retryAfterMs], ["FAILED_PRECONDITION", false, undefined]);

// Progress comes before the answer, in order, and with the id of the call.
const counted = call(Count, { to: 3 });
for (const to of [1, 2, 3]) {
  const { type, payload } = await next(undefined, counted);
  assert.deepEqual([type, payload], ["$ws:rpc-progress", { to }]);
}
assert.equal((await answer(Count, counted)).payload.to, 3);

// Every code has one meaning on both sides.
const codes = Object.keys(ERROR_CODE_META);
assert.equal(codes.length, 13);
for (const code of codes) {
  const failed = await failure(call(Fail, { code }));
  assert.deepEqual([failed.code, failed.message, failed.details], [code, "as you like", { because: "it was asked for" }]);
  // ws-kit has no rule for mistakes in a program, and Tidegate promises none.
  assert.equal(failed.retryable, ERROR_CODE_META[code].retryable === true, code);
}

// An aborted call ends on both sides.
const waiting = call(Wait);
assert.equal((await next(undefined, waiting)).payload, "waiting");
assert.equal((await answer(HowManyEnded, call(HowManyEnded))).payload.calls, 0);
socket.send(JSON.stringify({ type: "$ws:abort", meta: { correlationId: waiting } }));
assert.equal((await failure(waiting)).code, "CANCELLED");
assert.equal((await answer(HowManyEnded, call(HowManyEnded))).payload.calls, 1);

// Malformed messages.
const bad = "bad";
socket.send(JSON.stringify({ type: "COUNT", meta: { correlationId: bad }, payload: { to: "many" } }));
assert.equal((await failure(bad)).code, "INVALID_ARGUMENT");
send(Nonsense);
assert.equal((await next(EventError)).payload.code, "UNIMPLEMENTED");
socket.send("{");
assert.equal((await next(EventError)).payload.code, "INVALID_ARGUMENT");

assert.deepEqual(received, [], "nothing was said that nobody has asked for");
socket.close(1000);
await new Promise((closed) => socket.on("close", closed));
console.log("ok");
