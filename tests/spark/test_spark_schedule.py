"""What a schedule knows of each copy: who sends it, and how fast its partition grows."""

import pytest

from shunter.pipeline.lake.account_schemas import PLAN_LOADS, PLAN_MOVES
from shunter.pipeline.planning.schedule import schedule_rows

pytestmark = pytest.mark.spark


def test_growth_is_that_of_the_topic_which_has_the_name_now(spark):
    """Topic t of cluster `seen` was deleted and made anew. Of cluster `unseen` there is no snapshot."""
    moves = spark.createDataFrame(
        [(cluster, "p", "t", 0, 1, 3, 10.0, "") for cluster in ("seen", "unseen")], PLAN_MOVES.schema
    )
    replicas = spark.createDataFrame(
        [("seen", "new", "t", 0, 1, True, True), ("seen", "new", "t", 0, 2, False, True)],
        "cluster_id string, topic_id string, topic string, partition int, broker_id int, is_leader boolean, in_sync boolean",
    )
    model = spark.createDataFrame(
        [
            ("seen", "old", "t", 0, 1, "leader", 900.0),
            ("seen", "name:t", "t", 0, 1, "leader", 800.0),
            ("seen", "new", "t", 0, 1, "leader", 5.0),
            ("seen", "new", "t", 0, 2, "leader", 7.0),
            ("seen", "new", "t", 0, 2, "follower", 70.0),
            ("unseen", "name:t", "t", 0, 1, "leader", 6.0),
        ],
        "cluster_id string, topic_id string, topic string, partition int, broker_id int, role string, bytes_in_mean double",
    )
    loads = spark.createDataFrame([], PLAN_LOADS.schema)
    found = schedule_rows(moves, replicas, model, loads).orderBy("cluster_id").collect()
    assert [(row["cluster_id"], row["source"], row["growth"]) for row in found] == [
        ("seen", 1, 7.0),
        ("unseen", None, 6.0),
    ]
