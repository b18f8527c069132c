#!/usr/bin/env bash
# Prepares what the tests need: a JDK, Maven and, for the race detector, gcc (installed with apt-get on Debian when missing),
# the jars of the official clients, servers and integration tests (compat/java/*/pom.xml), the compiled agent and stand-ins, all in compat/.cache.
# Does nothing when everything is there; needs no network then. GANTRY_COMPAT_CACHE names another folder.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${GANTRY_COMPAT_CACHE:-$here/.cache}
mkdir -p "$cache"
cache=$(cd "$cache" && pwd)

say() { echo "compat/setup.sh: $*" >&2; }

# Test packages run side by side and all come here first.
exec 9>"$cache/lock"
if ! flock -w 600 9; then
  say "another setup holds $cache/lock for ten minutes; giving up"
  exit 1
fi

need=()
command -v javac >/dev/null || need+=("a JDK (javac)")
command -v mvn >/dev/null || need+=("Maven (mvn)")
command -v "${CC:-gcc}" >/dev/null || need+=("a C compiler (gcc)")
if [ ${#need[@]} -gt 0 ]; then
  missing=$(printf '%s and ' "${need[@]}")
  missing=${missing% and }
  if ! command -v apt-get >/dev/null; then
    say "$missing missing and this is no Debian: install JDK 11 or newer, Maven 3 and a C compiler, and put them on the PATH"
    exit 1
  fi
  if [ "$(id -u)" != 0 ]; then
    say "$missing missing: run this script as root once, or: apt-get install default-jdk-headless maven gcc libc6-dev"
    exit 1
  fi
  say "$missing missing; installing with apt-get"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -q >&2
  jdk=default-jdk-headless
  if apt-cache show openjdk-17-jdk-headless >/dev/null 2>&1; then jdk=openjdk-17-jdk-headless; fi
  apt-get install -y -q --no-install-recommends "$jdk" maven gcc libc6-dev >&2
fi

# stamp FILE CONTENT: true when FILE says CONTENT already.
stamp() { [ -f "$1" ] && [ "$(cat "$1")" = "$2" ]; }

poms=$(cat "$here"/java/pom.xml "$here"/java/*/pom.xml | cksum)
if ! stamp "$cache/jars.stamp" "$poms"; then
  say "fetching the jars of the official clients and servers with Maven"
  rm -rf "$cache"/client-* "$cache"/server-* "$cache"/official-5.5.0 "$cache/jars.stamp"
  if ! mvn -B -ntp -f "$here/java/pom.xml" dependency:copy-dependencies \
    "-DoutputDirectory=$cache/\${project.artifactId}" >"$cache/mvn.log" 2>&1; then
    tail -n 30 "$cache/mvn.log" >&2
    say "Maven could not fetch the jars (whole output in $cache/mvn.log)"
    exit 1
  fi
  echo "$poms" >"$cache/jars.stamp"
fi

sources=$(cat "$here"/java/src/gantry/compat/*.java "$here"/java/modern/gantry/compat/*.java "$cache/jars.stamp" | cksum)
if ! stamp "$cache/classes.stamp" "$sources"; then
  say "compiling the Java agent"
  rm -rf "$cache/classes" "$cache/classes.stamp"
  for client in "$cache"/client-*; do
    out=$cache/classes/$(basename "$client")
    mkdir -p "$out/src"
    cp "$here"/java/src/gantry/compat/*.java "$out/src"
    case $client in
    *client-4.3.0) ;;
    *client-3.*) sed -i 's/org\.apache\.rocketmq/com.alibaba.rocketmq/' "$out"/src/*.java ;; # before it went to Apache
    *) cp "$here"/java/modern/gantry/compat/*.java "$out/src" ;;
    esac
    javac -nowarn -proc:none -Xlint:-options --release 8 -d "$out" -cp "$client/*" "$out"/src/*.java
  done
  echo "$sources" >"$cache/classes.stamp"
fi

stand_ins=$(find "$here/official/java" -name '*.java' -print0 | sort -z | xargs -0 cat "$cache/jars.stamp" | cksum)
if ! stamp "$cache/official.stamp" "$stand_ins"; then
  say "compiling the stand-ins of the official suite"
  rm -rf "$cache/official-classes" "$cache/official.stamp"
  mkdir -p "$cache/official-classes"
  find "$here/official/java" -name '*.java' -print0 | xargs -0 javac -nowarn -proc:none -Xlint:-options --release 8 \
    -d "$cache/official-classes" -cp "$cache/official-5.5.0/*"
  echo "$stand_ins" >"$cache/official.stamp"
fi
