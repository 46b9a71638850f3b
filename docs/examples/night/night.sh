#!/usr/bin/env bash
# A night of jobs: three regions write, and their streams are archived, compacted, converted and
# profiled. The archiver is killed twice, and so are drivers of Spark. Each of them is started again,
# and at the end all counts must be equal.
#
#     night.sh FOLDER [RECORDS]      FOLDER must not exist; RECORDS are written in each region
set -euo pipefail

folder=$1 records=${2:-20000}
regions=(bonn oslo rome)
mkdir -p "$(dirname "$folder")" && mkdir "$folder" "$folder/cold" && cd "$folder"
cold="file://$PWD/cold"
jobs=()
bound=() # ends what it starts, even if this script is killed with SIGKILL
if command -v setpriv > /dev/null; then bound=(setpriv --pdeathsig TERM); fi

cleanup() {
    for pid in "${jobs[@]}"; do kill "$pid" 2> /dev/null || true; done
    for pid in "${jobs[@]}"; do wait "$pid" 2> /dev/null || true; done
}
trap cleanup EXIT
trap 'exit 143' TERM INT

step() { printf '%4d s  %s\n' "$SECONDS" "$*"; }

archiver() {
    "${bound[@]}" rhumbline archive serve --cold "$cold" --region "${regions[0]}" --every 500ms \
        --status-port none >> night.log 2>&1 &
    archiver=$!
    jobs+=("$archiver")
}

manifests() { find cold -name 'manifest-*' | wc -l; }

kill_archiver() { # once it has archived more than before
    local before
    before=$(manifests)
    for _ in $(seq 300); do
        if (($(manifests) > before)); then break; fi
        sleep 0.2
    done
    kill -9 "$archiver"
    wait "$archiver" 2> /dev/null || true
    step "killed the archiver"
}

job() {
    step "$(rhumbline spark "$@" --cold "$cold" --master 'local[2]' 2>> night.log)"
}

killed_job() { # killed_job PATTERN ARGUMENT...: kill the driver when a file PATTERN exists
    local pattern=$1 driver
    shift
    "${bound[@]}" rhumbline spark "$@" --cold "$cold" --master 'local[2]' >> night.log 2>&1 &
    driver=$!
    jobs+=("$driver")
    while kill -0 "$driver" 2> /dev/null && ! compgen -G "$pattern" > /dev/null; do sleep 0.1; done
    if kill -9 "$driver" 2> /dev/null; then step "killed the driver of $1"; fi
    wait "$driver" 2> /dev/null || true
}

"${bound[@]}" rhumbline dev . --regions "$(IFS=, && echo "${regions[*]}")" >> night.log 2>&1 &
jobs+=("$!")
rhumbline dev . --wait >> night.log 2>&1
rhumbline cluster features --raise 4 >> night.log 2>&1 # permits compaction
for region in "${regions[@]}"; do
    rhumbline stream create "orders-$region" --region "$region" >> night.log 2>&1
done

write() { # every append ends with its segment
    local part count=$((records / 5))
    for part in 0 1 2 3 4; do
        seq $((part * count + 1)) $(((part + 1) * count)) |
            sed "s/.*/{\"id\": &, \"name\": \"$1\"}/" > "$1-$part.jsonl"
        rhumbline stream append "orders-$1" --region "$1" --file "$1-$part.jsonl"
    done >> night.log 2>&1
}

step "three regions write"
archiver
writers=()
for region in "${regions[@]}"; do
    write "$region" &
    writers+=("$!")
done
kill_archiver
archiver
kill_archiver
wait "${writers[@]}"
rhumbline archive run --cold "$cold" --region "${regions[0]}" >> night.log 2>&1
step "archived $(manifests) segments"

killed_job 'cold/default/*/_staged/*/*.parquet' compact --grace-minutes 0
job compact --grace-minutes 0 # moves the segments
job compact --grace-minutes 0 # merges and deletes files, because there is no grace period
for region in "${regions[@]}"; do
    convert=(convert "default/orders-$region" --table "table-$region")
    convert+=(--columns 'id BIGINT, name STRING')
    if [[ $region == "${regions[0]}" ]]; then
        killed_job "table-$region/_checkpoint/offsets/0" "${convert[@]}"
    fi
    job "${convert[@]}"
done
job profile default --table profile.parquet --page profile.html
rhumbline archive verify --cold "$cold" >> night.log 2>&1
step "verified every byte of the archive"

python3 - "${regions[@]}" 2>> night.log << 'PYTHON'
import sys
from pathlib import Path

import rhumbline.spark

spark = rhumbline.spark.open_session("night", master="local[2]")
profile = spark.read.parquet("profile.parquet")
for region in sys.argv[1:]:
    (folder,) = Path(f"cold/default/orders-{region}").glob("[0-9a-f]*")
    table = spark.read.parquet(f"table-{region}")
    profiled = profile.where(f"stream = 'orders-{region}'").groupBy().sum("records").first()
    counts = {
        "written": sum(len(path.read_text().splitlines()) for path in Path().glob(f"{region}-*")),
        "archived": spark.read.parquet(str(folder)).count(),
        "converted": table.where("decode_error IS NULL").count(),
        "different": table.select("id").distinct().count(),
        "profiled": profiled[0],
    }
    listed = ", ".join(f"{count} {name}" for name, count in counts.items())
    print(f"orders-{region}: {listed}, {len(list(folder.iterdir()))} files")
    assert len(set(counts.values())) == 1, "the counts differ"
PYTHON
step "all counts are equal"
