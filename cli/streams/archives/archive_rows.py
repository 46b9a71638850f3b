"""The rows that commands print about archived segments."""

from ....coldstore.archive.manifest import Manifest
from ...output_schema import integer, text

ARCHIVED = {
    "stream": text("NAMESPACE/STREAM."),
    "stream_id": text("First digits of the stream's identity."),
    "segment": integer("Number of the segment."),
    "records": integer("Records, without erased ones."),
    "erased": integer("Records that were erased."),
    "payload_bytes": integer("Their payload."),
    "files": integer("Files in the cold store; one with several segments counts for the first."),
    "stored_bytes": integer("Their size."),
    "digest": text("First digits of the content's digest."),
}
"""The schema of ``archive_row``."""


def archive_row(manifest: Manifest) -> dict[str, object]:
    """Return the row of a segment. A file with several segments counts for the first of them."""
    files = [part for part in manifest.parts if not part.first_group]
    return {
        "stream": f"{manifest.namespace}/{manifest.stream}",
        "stream_id": manifest.stream_id,
        "segment": manifest.lssn,
        "records": manifest.stored_records,
        "erased": manifest.erased_count,
        "payload_bytes": manifest.payload_bytes,
        "files": len(files),
        "stored_bytes": sum(part.size_bytes for part in files),
        "digest": manifest.content_digest[:16],
    }
