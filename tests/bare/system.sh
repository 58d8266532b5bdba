# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# A fresh Debian 12 in a folder, for the scripts beside this one; sourced, never run. Needs root and debootstrap. Package mirrors,
# certificates and pip's settings are taken from this machine.
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"

# The script again in a mount namespace of its own, so that no mount is left behind: own_namespace "$0" "$@"
own_namespace() {
  [ "${HEDDLE_BARE_NAMESPACE:-}" != yes ] || return 0
  [ "$(id -u)" -eq 0 ] || { echo "bare: this needs root for debootstrap and chroot" >&2; exit 1; }
  HEDDLE_BARE_NAMESPACE=yes exec unshare --mount --propagation private "$@"
}

# make_system SYSTEM LOG
make_system() {
  local system="$1" log="$2" mirror started part
  # The mirror that apt uses here, in either of the two forms of source lists.
  mirror="$(sed -n 's/^URIs: *\([^ ]*\).*/\1/p' /etc/apt/sources.list.d/debian.sources 2>/dev/null | head -1)"
  [ -n "$mirror" ] || mirror="$(awk '$1 == "deb" { for (i = 2; i <= NF; i++) if ($i ~ /^http/) { print $i; exit } }' /etc/apt/sources.list)"
  started="$(date +%s)"
  debootstrap --variant=minbase bookworm "$system" "$mirror" >"$log" 2>&1 || {
    tail -5 "$log" >&2
    echo "bare: debootstrap failed; see $log" >&2
    exit 1
  }
  echo "bare: fresh Debian 12 in $(($(date +%s) - started)) s"

  # This machine's way to the mirrors.
  rm -f "$system/etc/apt/sources.list"
  [ -f /etc/apt/sources.list.d/debian.sources ] && cp /etc/apt/sources.list.d/debian.sources "$system/etc/apt/sources.list.d/"
  grep -qs '^deb .*bookworm' /etc/apt/sources.list && cp /etc/apt/sources.list "$system/etc/apt/"
  for part in /etc/apt/apt.conf /etc/apt/apt.conf.d/*; do
    [ -f "$part" ] && ! grep -q -E 'DPkg::|Pre-Install|Post-Invoke' "$part" && cp "$part" "$system$part"
  done
  cp /etc/resolv.conf /etc/hosts "$system/etc/" 2>/dev/null || true
  mkdir -p "$system/etc/ssl/certs" "$system/usr/local/share/ca-certificates" "$system/root/.config/pip"
  cp /etc/ssl/certs/ca-certificates.crt "$system/etc/ssl/certs/" 2>/dev/null || true
  cp -r /usr/local/share/ca-certificates/. "$system/usr/local/share/ca-certificates/" 2>/dev/null || true
  cp /etc/pip.conf "$system/etc/" 2>/dev/null || true
  cp "$HOME/.config/pip/pip.conf" "$system/root/.config/pip/" 2>/dev/null || true
}

# mount_system SYSTEM, and what undoes it before the folder is removed
mount_system() {
  mkdir -p "$1/proc" "$1/dev"
  mount -t proc proc "$1/proc"
  mount --rbind /dev "$1/dev"
  mount --make-rslave "$1/dev"
}
unmount_system() {
  umount -R "$1/proc" "$1/dev" 2>/dev/null || true
  ! mountpoint -q "$1/proc" && ! mountpoint -q "$1/dev" && return 0
  echo "$1 is kept: this machine's /proc or /dev is still mounted in it" >&2
  return 1
}

# in_system SYSTEM COMMAND: a command line of bash, with nothing of this machine's environment but its way to the network.
in_system() {
  local forwarded=(HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive) variable
  while IFS= read -r variable; do forwarded+=("$variable"); done < <(env | grep -i -E '^(PIP_|https?_proxy=|no_proxy=|SSL_CERT_FILE=)')
  env -i "${forwarded[@]}" chroot "$1" bash -c "$2" </dev/null
}
