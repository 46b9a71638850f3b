#!/usr/bin/env bash
# Builds the container image from Debian's packages and a wheel of this checkout; no image registry is
# used. Needs root, mmdebstrap and buildah.
#
#     deploy/container/build.sh [OUTPUT.tar]      (default: build/container/rhumbline.tar, an OCI archive)
#
# The image runs as user 65532, needs no writable root, and holds Python, the compiled form of the
# package and the extras that servers use. Two builds of one commit hold the same files.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
output=${1:-$root/build/container/rhumbline.tar}
python=${PYTHON:-$root/.venv/bin/python}
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$root" log -1 --format=%ct)}
work=$(mktemp -d)
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
    --include=base-files,ca-certificates,coreutils,dash,libc-bin,libpython3-stdlib,netbase,python3-minimal,tzdata \
    --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
    --dpkgopt='path-exclude=/usr/share/locale/*' --dpkgopt='path-exclude=/usr/share/info/*' \
    bookworm "$work/root"
rm -rf "$work"/root/var/lib/{apt,dpkg} "$work"/root/var/cache/* "$work"/root/var/log/*
cat "$work"/root/usr/share/ca-certificates/mozilla/*.crt >"$work/root/etc/ssl/certs/ca-certificates.crt"
echo 'root:x:0:0:root:/root:/usr/sbin/nologin' >"$work/root/etc/passwd"
echo 'root:x:0:' >"$work/root/etc/group"
echo 'rhumbline:x:65532:65532:Rhumbline:/var/lib/rhumbline:/usr/sbin/nologin' >>"$work/root/etc/passwd"
echo 'rhumbline:x:65532:' >>"$work/root/etc/group"
install -d -o 65532 -g 65532 -m 0750 "$work/root/var/lib/rhumbline"
install -d "$work/root/etc/rhumbline"

echo "packages ..."
"$python" -m pip install --quiet --no-compile --no-build-isolation \
    --require-hashes --target "$work/root/opt/rhumbline" --requirement "$root/deploy/container/requirements.lock"
"$python" -m pip install --quiet --no-compile --no-build-isolation --no-deps \
    --target "$work/root/opt/rhumbline" --upgrade "$wheel"
rm -rf "$work"/root/opt/rhumbline/{bin,pyarrow/include,pyarrow/tests,setuptools,setuptools-*,pkg_resources,_distutils_hack,distutils-precedence.pth}
install -d "$work/root/usr/local/bin"
cat >"$work/root/usr/local/bin/rhumbline" <<'SCRIPT'
#!/usr/bin/python3 -I
import sys

sys.path.insert(0, "/opt/rhumbline")
from rhumbline.cli import main

main()
SCRIPT
chmod 0755 "$work/root/usr/local/bin/rhumbline"
python3 -m compileall -q -j 0 --invalidation-mode unchecked-hash -s "$work/root" "$work/root/opt/rhumbline"
find "$work/root" -xdev -newermt "@$SOURCE_DATE_EPOCH" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +

echo "image ..."
mkdir -p "$(dirname "$output")"
rm -f "$output"
buildah() { command buildah --storage-driver vfs --root "$work/storage" --runroot "$work/run" "$@"; }
container=$(buildah from scratch)
buildah add --quiet "$container" "$work/root" /
buildah config --user 65532:65532 --entrypoint '["/usr/local/bin/rhumbline"]' --cmd '--help' \
    --workingdir /var/lib/rhumbline --volume /var/lib/rhumbline \
    --env PYTHONUNBUFFERED=1 --env PYTHONDONTWRITEBYTECODE=1 \
    --port 3281 --port 4281 --stop-signal SIGTERM \
    --label org.opencontainers.image.title=rhumbline \
    --label "org.opencontainers.image.revision=$(git -C "$root" rev-parse HEAD)" "$container"
buildah commit --quiet --timestamp "$SOURCE_DATE_EPOCH" --format oci --disable-compression=false "$container" "oci-archive:$output:rhumbline" >/dev/null
du -h "$output" | cut -f1
