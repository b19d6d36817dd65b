"""redis-py, as its users would ask."""

import sys

import redis

port = int(sys.argv[1])
for protocol in (2, 3):
    client = redis.Redis(port=port, protocol=protocol, client_name="tests")
    assert client.ping() is True
    assert client.client_getname() in ("tests", b"tests")

    key = f"user{protocol}"
    assert client.execute_command("CL.THROTTLE", key, 15, 30, 60) == [0, 16, 15, -1, 2]
    assert client.execute_command("TG.LIMIT", "login", key) [:3] == [1, 5, 4]
    assert client.execute_command("TG.RESET", "login", key)[:3] == [1, 5, 5]
    assert client.execute_command("TG.CHECK", "login", b"\xff")[:3] == [1, 5, 5]
    try:
        client.execute_command("TG.LIMIT", "nope", key)
        raise AssertionError("there is no such limit")
    except redis.ResponseError as error:
        assert str(error) == "unknown limit 'nope'", error

    pipeline = client.pipeline(transaction=False)
    for _ in range(5_000):
        pipeline.execute_command("CL.THROTTLE", f"pipeline{protocol}", 999, 1, 86400)
    answers = pipeline.execute()
    assert [answer[0] for answer in answers] == [0] * 1_000 + [1] * 4_000
    assert int(client.info()["connected_clients"]) >= 1
    client.close()
print("ok")
