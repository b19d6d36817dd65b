// ioredis, as its users would ask.
const assert = require("assert");
const Redis = require("ioredis");

async function ask(protocol) {
  const client = new Redis({ port: Number(process.argv[2]), protocol, connectionName: "tests", maxRetriesPerRequest: 0 });
  client.on("error", (error) => { throw error; });
  assert.equal(await client.ping(), "PONG");
  assert.equal(await client.client("GETNAME"), "tests");
  const key = `user${protocol}`;
  assert.deepEqual(await client.call("CL.THROTTLE", key, 15, 30, 60), [0, 16, 15, -1, 2]);
  const [allowed, limit, remaining, retryAfter] = await client.call("TG.LIMIT", "login", key);
  assert.deepEqual([allowed, limit, remaining, retryAfter], [1, 5, 4, -1]);
  await assert.rejects(client.call("TG.LIMIT", "nope", key), /unknown limit 'nope'/);

  const pipeline = client.pipeline();
  for (let i = 0; i < 5000; i++) pipeline.call("CL.THROTTLE", `pipeline${protocol}`, 999, 1, 86400);
  const answers = await pipeline.exec();
  assert.deepEqual(answers.map(([error, answer]) => [error, answer[0]]), answers.map((_, i) => [null, i < 1000 ? 0 : 1]));
  await client.quit();
}

ask(2).then(() => ask(3)).then(() => console.log("ok"));
