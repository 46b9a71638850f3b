"""Makes pyiceberg decode the files of tables within their bounds.

pyiceberg's compiled decoder trusts the lengths that it finds in a file. A damaged length makes it
return memory of this process, or ends the process with SIGSEGV.
"""

from pyiceberg.avro import file
from pyiceberg.avro.decoder import BinaryDecoder, StreamingBinaryDecoder


class BoundedDecoder(StreamingBinaryDecoder):
    """Raises EOFError or ValueError for a length that is not possible."""

    def skip(self, n: int) -> None:
        """Skip ``n`` bytes, which must exist."""
        self.read(n)


def decode_within_bounds() -> None:
    """Let pyiceberg use this decoder in this process. Safe to repeat."""
    vars(file)["new_decoder"] = _new_decoder


def _new_decoder(b: bytes) -> BinaryDecoder:
    return BoundedDecoder(b)
