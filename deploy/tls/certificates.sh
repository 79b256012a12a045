#!/usr/bin/env bash
# Make a certificate authority and certificates for a Dask cluster:
#   deploy/tls/certificates.sh FOLDER [NAME ...]        names: scheduler worker client unless given
# Writes FOLDER/ca.pem, FOLDER/ca-key.pem, and FOLDER/NAME.pem with FOLDER/NAME-key.pem for each name, valid for DAYS days
# (365), and FOLDER/dask.yaml: where DASK_CONFIG=FOLDER is exported, Dask uses them, and connects by TLS only. PLACE is where
# the processes see the folder, if it is not FOLDER. Run it again with the names to renew them, and others to add them: the key of an authority that is there is kept,
# and its ca.pem is renewed where it would end before them. Whoever holds a certificate of this authority may run code on the
# cluster: keep ca-key.pem off the cluster's machines. Dask reads no lists of revoked certificates: to revoke one, make a new
# authority in another folder and start the cluster with it.
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
    openssl ecparam -genkey -name prime256v1 -noout -out ca-key.pem
fi
if [ ! -f ca.pem ] || ! openssl x509 -checkend "$((days * 86400))" -noout -in ca.pem >/dev/null; then
    openssl req -x509 -new -key ca-key.pem -days "$((2 * days))" -out ca.pem -subj "/CN=distembed cluster" \
        -addext "basicConstraints=critical,CA:TRUE,pathlen:0" \
        -addext "keyUsage=critical,keyCertSign,cRLSign"
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

place=${PLACE:-$PWD}
{
    printf 'distributed:\n  comm:\n    require-encryption: true\n    tls:\n      ca-file: "%s/ca.pem"\n' "$place"
    for name in scheduler worker client; do
        printf '      %s: {cert: "%s/%s.pem", key: "%s/%s-key.pem"}\n' "$name" "$place" "$name" "$place" "$name"
    done
} > dask.yaml
