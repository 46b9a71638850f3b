"""A cold store in S3 or a compatible store. Only this module imports ``boto3``.

``put_if_absent`` is a PUT with ``If-None-Match: *``, which the store evaluates atomically. Every
PUT carries the SHA-256 of its bytes: the store refuses a damaged upload and keeps the checksum,
which ``stat`` returns.
"""

import base64
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from ...core.protocol.errors import (
    ConfigurationError,
    DiskFullError,
    InvalidArgumentError,
    NoSuchObjectError,
    RhumblineError,
    UnauthorizedError,
    UnavailableError,
    UnknownOutcomeError,
)
from ...core.runtime.cold_store import OBJECT_BYTES_MAX, ObjectStat, check_key
from .authorities import check_authorities
from .blocking_calls import BlockingCalls

T = TypeVar("T")

_ABSENT = {"404", "NoSuchKey", "NotFound"}
_EXISTS = {"412", "PreconditionFailed"}
_REFUSED = {"401", "403", "AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch"}
_RACING = {"409", "ConditionalRequestConflict", "OperationAborted"}
_FULL = {"507", "QuotaExceeded", "XMinioAdminBucketQuotaExceeded"}
_RACES_MAX = 8


@dataclass(frozen=True, slots=True)
class S3Options:
    """The bucket, credentials and limits of an S3 store.

    Without keys, boto3's own chain of credentials is used. Temporary keys need a
    ``session_token``. ``ca`` is a PEM file with the authorities that an https endpoint is verified
    by; None: those that boto3 trusts. ``timeout_ms`` is the deadline of each call.
    """

    bucket: str
    prefix: str = ""
    endpoint: str | None = None
    region: str = "us-east-1"
    access_key: str | None = None
    secret_key: str | None = None
    session_token: str | None = None
    ca: str | None = None
    timeout_ms: int = 60_000
    threads: int = 8


class S3ColdStore:
    """Stores objects in a bucket, below a prefix. Raises ConfigurationError for bad options."""

    def __init__(self, options: S3Options) -> None:
        if options.prefix:
            check_key(options.prefix)
        self._options = options
        self._calls = BlockingCalls("S3", threads=options.threads, timeout_ms=options.timeout_ms)
        seconds = max(1.0, options.timeout_ms / 1000)
        check_authorities(options.ca)
        try:
            self._client: Any = boto3.client(
                "s3",
                endpoint_url=options.endpoint,
                region_name=options.region,
                aws_access_key_id=options.access_key,
                aws_secret_access_key=options.secret_key,
                aws_session_token=options.session_token,
                verify=options.ca,
                config=Config(
                    connect_timeout=min(10.0, seconds),
                    read_timeout=seconds,
                    retries={
                        "total_max_attempts": 1
                    },  # a retried conditional PUT would fail on its own object
                    max_pool_connections=options.threads,
                    s3={"addressing_style": "path" if options.endpoint else "auto"},
                ),
            )
        except (BotoCoreError, ValueError) as error:
            raise ConfigurationError(f"S3: {error}") from error

    @property
    def uri(self) -> str:
        """The URI ``s3://bucket/prefix``."""
        return f"s3://{self._options.bucket}/{self._options.prefix}".rstrip("/")

    async def put_if_absent(self, key: str, data: bytes) -> bool:
        """See ColdStore."""
        name = self._name(key)
        if len(data) > OBJECT_BYTES_MAX:
            raise InvalidArgumentError(
                f"{key}: {len(data)} bytes are more than {OBJECT_BYTES_MAX} bytes"
            )
        checksum = base64.b64encode(hashlib.sha256(data).digest()).decode("ascii")
        return await self._calls.write(lambda: self._put(name, data, checksum))

    async def get(self, key: str, offset: int = 0, length: int | None = None) -> bytes:
        """See ColdStore."""
        name = self._name(key)
        if length == 0:
            return b""
        end = "" if length is None else str(offset + length - 1)

        def call() -> bytes:
            response = self._client.get_object(
                Bucket=self._options.bucket, Key=name, Range=f"bytes={offset}-{end}"
            )
            body: bytes = response["Body"].read()
            return body

        try:
            return await self._calls.read(lambda: self._with_typed_errors(call, key))
        except _BeyondTheEndError:
            return b""

    async def stat(self, key: str) -> ObjectStat:
        """See ColdStore."""
        name = self._name(key)

        def call() -> ObjectStat:
            found = self._client.head_object(
                Bucket=self._options.bucket, Key=name, ChecksumMode="ENABLED"
            )
            checksum = found.get("ChecksumSHA256")
            is_whole = checksum is not None and "-" not in checksum
            sha256 = base64.b64decode(checksum).hex() if is_whole else None
            return ObjectStat(found["ContentLength"], sha256)

        return await self._calls.read(lambda: self._with_typed_errors(call, key))

    async def list(self, prefix: str = "") -> list[str]:
        """See ColdStore."""
        top = self._name(prefix) if prefix else self._options.prefix
        cut = len(self._options.prefix) + 1 if self._options.prefix else 0

        def call() -> list[str]:
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self._options.bucket, Prefix=top
            )
            names = [item["Key"] for page in pages for item in page.get("Contents", ())]
            below = [n for n in names if not top or n == top or n.startswith(f"{top}/")]
            return sorted(name[cut:] for name in below)

        return await self._calls.read(lambda: self._with_typed_errors(call, prefix))

    async def delete(self, key: str) -> None:
        """See ColdStore."""
        name = self._name(key)

        def call() -> None:
            self._client.delete_object(Bucket=self._options.bucket, Key=name)

        await self._calls.write(lambda: self._with_typed_errors(call, key, writes=True))

    async def close(self) -> None:
        """See ColdStore."""
        await self._calls.close()
        self._client.close()

    def _name(self, key: str) -> str:
        check_key(key)
        return f"{self._options.prefix}/{key}" if self._options.prefix else key

    def _put(self, name: str, data: bytes, checksum: str) -> bool:
        def call() -> bool:
            self._client.put_object(
                Bucket=self._options.bucket,
                Key=name,
                Body=data,
                ChecksumSHA256=checksum,
                IfNoneMatch="*",
            )
            return True

        for _ in range(_RACES_MAX):
            try:
                return self._with_typed_errors(call, name, writes=True)
            except _ExistsError:
                return False
            except _RacingError:
                continue  # a concurrent write of this key is in progress: retry to see the outcome
        raise UnavailableError(
            f"S3, {name}: {_RACES_MAX} attempts conflicted with other writers of this key"
        )

    def _with_typed_errors(self, call: Callable[[], T], key: str, *, writes: bool = False) -> T:
        try:
            return call()
        except ClientError as error:
            raise _translate_error(error, key, writes) from error
        except (BotoCoreError, OSError) as error:
            kind = UnknownOutcomeError if writes else UnavailableError
            raise kind(f"S3, {key}: {error}") from error


class _ExistsError(RhumblineError):
    """Internal: the key of a conditional PUT already exists."""

    code = "s3-exists"


class _RacingError(RhumblineError):
    """Internal: two conditional PUTs of one key conflicted."""

    code = "s3-racing"


class _BeyondTheEndError(RhumblineError):
    """Internal: a range starts at or beyond the end of the object."""

    code = "s3-range"


def _translate_error(error: ClientError, key: str, writes: bool) -> RhumblineError:
    code = str(error.response.get("Error", {}).get("Code", ""))
    status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    reported = {code, str(status)}
    if code == "NoSuchBucket":
        return ConfigurationError(f"S3: the bucket does not exist: {error}")
    for known, kind in (
        (_ABSENT, NoSuchObjectError),
        (_EXISTS, _ExistsError),
        (_RACING, _RacingError),
        ({"416", "InvalidRange"}, _BeyondTheEndError),
        (_FULL, DiskFullError),  # before _REFUSED: some stores report a quota as 403
        (_REFUSED, UnauthorizedError),
    ):
        if reported & known:
            return kind(f"S3, {key}: {error}")
    if status >= 500 and writes:
        return UnknownOutcomeError(f"S3, {key}: {error}")
    return UnavailableError(f"S3, {key}: {error}")
