#!/bin/sh
# Builds the server of main.cpp as the file that the argument names. EDDY_UWEBSOCKETS is a checkout of uWebSockets with
# its submodule uSockets.
set -eu
out=$1
src=$EDDY_UWEBSOCKETS
here=$(cd "$(dirname "$0")" && pwd)
objects=$(mktemp -d)
trap 'rm -rf "$objects"' EXIT
flags="-O3 -flto=auto -DLIBUS_NO_SSL -DUWS_NO_ZLIB -I$src/src -I$src/uSockets/src"
(cd "$objects" && gcc $flags -c "$src"/uSockets/src/*.c "$src"/uSockets/src/eventing/*.c "$src"/uSockets/src/crypto/*.c)
g++ $flags -std=c++20 -pthread -o "$out" "$here/main.cpp" "$objects"/*.o
