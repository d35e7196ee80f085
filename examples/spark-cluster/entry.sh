#!/bin/sh
# master | worker [MASTER] | anything that `quire` understands
set -eu
SPARK_HOME=$("${PYSPARK_PYTHON:-python3}" -c "import os, pyspark; print(os.path.dirname(pyspark.__file__))")
export SPARK_HOME
host=${SPARK_HOST:-$(hostname)}
class() { exec "$SPARK_HOME/bin/spark-class" "org.apache.spark.deploy.$@"; }
case "${1:-master}" in
    master) class master.Master --host "$host" --port "${SPARK_MASTER_PORT:-7077}" --webui-port "${SPARK_UI_PORT:-8080}" ;;
    worker) class worker.Worker --host "$host" --work-dir "${SPARK_WORK_DIR:-/tmp/spark}" \
        --cores "${SPARK_CORES:-2}" --memory "${SPARK_MEMORY:-2g}" --webui-port "${SPARK_UI_PORT:-8081}" \
        "${2:-spark://master:7077}" ;;
    *) exec quire "$@" ;;
esac
