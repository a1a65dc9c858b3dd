"""servers - the real servers that tests need, each private: on free ports of the loopback, with its
data in the folder of the run, ended with the test.

    from servers import Redis, Postgres

    with Redis() as redis, Postgres() as postgres:
        ...  # redis.url, postgres.url

Everything of a run lies in one folder, which goes when all has gone well; otherwise its place is
said. See README.md; `with` is the same for programs that are not Python."""

from servers.cluster import RedisCluster
from servers.kafka_brokers import Kafka
from servers.postgres import Postgres
from servers.process import Missing, Server, home, keep_home, sweep
from servers.proxy import KAFKA_PRODUCE, Proxy
from servers.redis_server import Redis

__all__ = ["KAFKA_PRODUCE", "Kafka", "Missing", "Postgres", "Proxy", "Redis", "RedisCluster",
           "Server", "home", "keep_home", "sweep"]
