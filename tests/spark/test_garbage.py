"""What worker processes have loaded is spared from the collections that Spark runs after every task; the driver's is not."""

import gc

from adjudge.spark.garbage import spare_loaded


def frozen(_):
    spare_loaded()
    return gc.get_freeze_count()


def test_worker_processes_spare_what_they_have_loaded(spark):
    assert min(spark.sparkContext.parallelize(range(2), 2).map(frozen).collect()) > 10_000
    assert frozen(None) == 0
