/* SPDX-License-Identifier: Apache-2.0
 *
 * Manifests and blobs, one at a time: ask, send, fetch. Private to this folder.
 */
#ifndef TSR_REGISTRY_TRANSFER_H
#define TSR_REGISTRY_TRANSFER_H

#include "registry/http.h"

#define TSR_DIGEST_TEXT_BYTES (7 + TSR_DIGEST_HEX + 1) /* "sha256:<digest>" and a NUL */
typedef struct tsr_digest_text {
    char text[TSR_DIGEST_TEXT_BYTES];
} tsr_digest_text;
tsr_digest_text tsr_digest_text_of(const tsr_digest *digest);

/* ---- manifests ---- */

/* GET of a manifest by tag or "sha256:…"; at most TSR_BUNDLE_METADATA_BYTES_MAX bytes, in the
 * response's body. `accept`: media types, separated by ", ". With `expected` the digest is compared
 * (TSR_CORRUPT). The status is 200 or, with missing_ok, 404. */
TSR_RESULT tsr_manifest_get(tsr_ctx *ctx, tsr_http *http, const char *name_or_digest,
                            const char *accept, const tsr_digest *expected, bool missing_ok,
                            tsr_http_response *response);
TSR_RESULT tsr_manifest_exists(tsr_ctx *ctx, tsr_http *http, const char *name_or_digest,
                               bool *out_exists);
TSR_RESULT tsr_manifest_put(tsr_ctx *ctx, tsr_http *http, const char *name_or_digest,
                            const char *media_type, const void *bytes, size_t size_bytes,
                            tsr_http_response *response);

/* ---- blobs out ---- */

typedef struct tsr_blob_source {
    tsr_digest digest;
    uint64_t size_bytes;
    tsr_http_source_fn read; /* verified bytes */
    void *user;
} tsr_blob_source;

typedef enum tsr_blob_fate { TSR_BLOB_SENT, TSR_BLOB_PRESENT, TSR_BLOB_MOUNTED } tsr_blob_fate;

/* Asks first; then mounts it from one of the repositories, or sends it, going on where a broken-off
 * connection left it. */
TSR_RESULT tsr_blob_push(tsr_ctx *ctx, tsr_http *http, const tsr_blob_source *source,
                         const char *const *mount_names, size_t mount_count,
                         tsr_blob_fate *out_fate);

/* ---- blobs in ---- */

/* A whole small blob into memory of size_bytes, verified. */
TSR_RESULT tsr_blob_get(tsr_ctx *ctx, tsr_http *http, const tsr_digest *digest, size_t size_bytes,
                        void *bytes);

/* Bytes from `begin` of the blob, in order: the sink keeps count. It is told where the answer
 * begins: at `begin`, or at 0 from a server without ranges. */
typedef struct tsr_blob_range {
    tsr_digest digest;
    uint64_t size_bytes; /* of the blob */
    uint64_t begin, end; /* wanted */
    tsr_result (*sink)(tsr_ctx *ctx, void *user, uint64_t offset, const void *bytes,
                       size_t size_bytes);
    void *user;
    uint64_t next; /* set here: offset of the next byte of the answer */
} tsr_blob_range;
/* One request, no retry: *out_retry tells whether another may succeed after an error. */
TSR_RESULT tsr_blob_get_range(tsr_ctx *ctx, tsr_http *http, tsr_blob_range *range,
                              tsr_http_response *response);

#endif
