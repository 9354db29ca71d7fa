#!/bin/bash
# Installs the Debian packages of debian-packages.txt that are missing. Never asks, never fails: where
# it cannot install, it says so and lets the build find out what is really needed.
#
#   install_deps.sh [KIND...]      kinds to install, by default: required demo optional
set -uo pipefail

list="$(dirname "$0")/debian-packages.txt"
kinds=("$@")
[ ${#kinds[@]} -gt 0 ] || kinds=(required demo optional)

wanted=()
while read -r package kind _; do
  case "$package" in ''|'#'*) continue ;; esac
  for k in "${kinds[@]}"; do
    if [ "$k" = "$kind" ]; then wanted+=("$package"); fi
  done
done < "$list"

if ! command -v dpkg-query > /dev/null; then
  echo "warning: this is not a Debian system; please provide: ${wanted[*]}" >&2
  exit 0
fi

installed=" $(dpkg-query -W -f='${db:Status-Status} ${Package}\n' "${wanted[@]}" 2> /dev/null |
  sed -n 's/^installed //p' | tr '\n' ' ')"
missing=()
for package in "${wanted[@]}"; do
  case "$installed" in *" $package "*) ;; *) missing+=("$package") ;; esac
done
[ ${#missing[@]} -gt 0 ] || exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then as_root=(sudo -n); fi
apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get)

# apt may reach no server: short timeouts, so that an offline build only loses seconds.
options=(-y --no-install-recommends -o Acquire::Retries=1 -o Acquire::http::Timeout=10
  -o Acquire::https::Timeout=10 -o DPkg::Lock::Timeout=60)

try_install() {
  command -v apt-get > /dev/null || return 1
  "${apt[@]}" "${options[@]}" install "$@" < /dev/null
}

echo "installing Debian packages: ${missing[*]}"
if try_install "${missing[@]}"; then exit 0; fi
if command -v apt-get > /dev/null && "${apt[@]}" "${options[@]}" update < /dev/null; then
  if try_install "${missing[@]}"; then exit 0; fi
fi
# One package that does not exist must not keep the others away.
for package in "${missing[@]}"; do
  if [ ${#missing[@]} -gt 1 ] && try_install "$package"; then continue; fi
  echo "warning: could not install $package; going on without it" >&2
done
exit 0
