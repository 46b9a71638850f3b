#!/usr/bin/env bash
# Builds the container image from Debian's packages and a wheel of this checkout; no image registry is
# used. Needs root, mmdebstrap and buildah.
#
#     deploy/container/build.sh [OUTPUT.tar]      (default: build/container/rhumbline.tar, an OCI archive)
#
# WHEEL names a wheel of this checkout that was built before; without it, one is built.
#
# The image runs as user 65532, needs no writable root, and holds Python, the compiled form of the
# package and the extras that servers use. Two builds of one commit hold the same files.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
output=${1:-$root/build/container/rhumbline.tar}
python=${PYTHON:-$root/.venv/bin/python}
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$root" log -1 --format=%ct)}
work=$(mktemp -d)
files=$work/files
trap 'rm -rf "$work"' EXIT

echo "wheel ..."
wheel=${WHEEL:-}
if [ -z "$wheel" ]; then
    RHUMBLINE_BUILD=${RHUMBLINE_BUILD:-compiled} "$python" -m pip wheel --quiet --no-deps --wheel-dir "$work/wheel" "$root"
    wheel=$(ls "$work"/wheel/*.whl)
fi

echo "root file system ..."
# Packages are unpacked without running their scripts, so neither a package manager nor Perl is needed.
mmdebstrap --quiet --variant=extract --hook-dir=/usr/share/mmdebstrap/hooks/merged-usr \
    --include=base-files,ca-certificates,coreutils,dash,libc-bin,libpython3-stdlib,libstdc++6,netbase,python3-minimal,tzdata \
    --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
    --dpkgopt='path-exclude=/usr/share/locale/*' --dpkgopt='path-exclude=/usr/share/info/*' \
    bookworm "$files"
rm -rf "$files"/var/lib/{apt,dpkg} "$files"/var/cache/* "$files"/var/log/*
cat "$files"/usr/share/ca-certificates/mozilla/*.crt >"$files/etc/ssl/certs/ca-certificates.crt"
echo 'root:x:0:0:root:/root:/usr/sbin/nologin' >"$files/etc/passwd"
echo 'root:x:0:' >"$files/etc/group"
echo 'rhumbline:x:65532:65532:Rhumbline:/var/lib/rhumbline:/usr/sbin/nologin' >>"$files/etc/passwd"
echo 'rhumbline:x:65532:' >>"$files/etc/group"
install -d -o 65532 -g 65532 -m 0750 "$files/var/lib/rhumbline"
install -d "$files/etc/rhumbline"

echo "packages ..."
"$python" -m pip install --quiet --no-compile --no-build-isolation \
    --require-hashes --target "$files/opt/rhumbline" --requirement "$root/deploy/container/requirements.lock"
"$python" -m pip install --quiet --no-compile --no-build-isolation --no-deps \
    --target "$files/opt/rhumbline" --upgrade "$wheel"
rm -rf "$files"/opt/rhumbline/{bin,pyarrow/include,pyarrow/tests,setuptools,setuptools-*,pkg_resources,_distutils_hack,distutils-precedence.pth}
install -d "$files/usr/local/bin"
cat >"$files/usr/local/bin/rhumbline" <<'SCRIPT'
#!/usr/bin/python3 -I
import sys

sys.path.insert(0, "/opt/rhumbline")
from rhumbline.cli import main

main()
SCRIPT
chmod 0755 "$files/usr/local/bin/rhumbline"
python3 -m compileall -q -j 0 --invalidation-mode unchecked-hash -s "$files" "$files/opt/rhumbline"
find "$files" -xdev -newermt "@$SOURCE_DATE_EPOCH" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +

echo "image ..."
mkdir -p "$(dirname "$output")"
rm -f "$output"
buildah() { command buildah --storage-driver vfs --root "$work/storage" --runroot "$work/run" "$@"; }
container=$(buildah from scratch)
# `buildah add` would give all files to root, and a volume gets the owner of its folder in the image.
cp --archive "$files/." "$(buildah mount "$container")/"
buildah umount "$container" >/dev/null
buildah config --user 65532:65532 --entrypoint '["/usr/local/bin/rhumbline"]' --cmd '--help' \
    --workingdir /var/lib/rhumbline --volume /var/lib/rhumbline \
    --env PYTHONUNBUFFERED=1 --env PYTHONDONTWRITEBYTECODE=1 \
    --port 3281 --port 4281 --stop-signal SIGTERM \
    --label org.opencontainers.image.title=rhumbline \
    --label "org.opencontainers.image.revision=$(git -C "$root" rev-parse HEAD)" "$container"
buildah commit --quiet --timestamp "$SOURCE_DATE_EPOCH" --format oci --disable-compression=false "$container" "oci-archive:$output:rhumbline" >/dev/null
du -h "$output" | cut -f1
