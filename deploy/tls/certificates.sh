#!/usr/bin/env bash
# Make a certificate authority and certificates for a Dask cluster:
#   deploy/tls/certificates.sh FOLDER [NAME ...]        names: scheduler worker client unless given
# Writes FOLDER/ca.pem, FOLDER/ca-key.pem, and FOLDER/NAME.pem with FOLDER/NAME-key.pem for each name. An authority
# that is there already is kept, so that names can be added later. Whoever holds a certificate of this authority may
# run code on the cluster: keep ca-key.pem off the cluster's machines.
set -euo pipefail
umask 077

folder=${1:?"usage: certificates.sh FOLDER [NAME ...]"}
shift
if [ $# -eq 0 ]; then
    set -- scheduler worker client
fi
days=${DAYS:-365}
mkdir -p "$folder"
cd "$folder"

if [ ! -f ca-key.pem ]; then
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days "$days" \
        -subj "/CN=distembed cluster" -keyout ca-key.pem -out ca.pem \
        -addext "basicConstraints=critical,CA:TRUE,pathlen:0" \
        -addext "keyUsage=critical,keyCertSign,cRLSign" 2>/dev/null
fi

for name in "$@"; do
    openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes \
        -subj "/CN=$name" -keyout "$name-key.pem" -out "$name.csr" 2>/dev/null
    # Each process is a server to some and a client of others. Dask checks the authority, not the host's name.
    openssl x509 -req -in "$name.csr" -CA ca.pem -CAkey ca-key.pem -CAcreateserial -days "$days" -out "$name.pem" \
        -extfile <(printf '%s\n' "basicConstraints=critical,CA:FALSE" "keyUsage=critical,digitalSignature" \
            "extendedKeyUsage=serverAuth,clientAuth" "subjectAltName=DNS:$name" \
            "subjectKeyIdentifier=hash" "authorityKeyIdentifier=keyid") 2>/dev/null
    rm "$name.csr"
done
rm -f ca.srl
