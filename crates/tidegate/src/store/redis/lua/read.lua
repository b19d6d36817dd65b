return struct.pack('<dBc0', time(ARGV[1]), 0, redis.call('GET', KEYS[1]) or '')
