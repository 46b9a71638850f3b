"""The script for spark-submit: ``spark-submit --py-files rhumbline.whl submit.py JOB ...``."""

import runpy

if __name__ == "__main__":
    runpy.run_module("rhumbline.spark.jobs", run_name="__main__", alter_sys=True)
