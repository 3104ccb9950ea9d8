/* SPDX-License-Identifier: Apache-2.0
 *
 * Queries, sends and fetches manifests and blobs, one at a time. Private to this folder.
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

/* Fetches a manifest by tag or "sha256:…"; at most TSR_BUNDLE_METADATA_BYTES_MAX bytes, into the
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

/* ---- sending blobs ---- */

typedef struct tsr_blob_source {
    tsr_digest digest;
    uint64_t size_bytes;
    tsr_http_source_fn read; /* returns verified bytes */
    void *user;
} tsr_blob_source;

typedef enum tsr_blob_fate { TSR_BLOB_SENT, TSR_BLOB_PRESENT, TSR_BLOB_MOUNTED } tsr_blob_fate;

/* Asks whether the blob exists; if not, mounts it from one of the repositories, or sends it, and
 * resumes after an interrupted connection. */
TSR_RESULT tsr_blob_push(tsr_ctx *ctx, tsr_http *http, const tsr_blob_source *source,
                         const char *const *mount_names, size_t mount_count,
                         tsr_blob_fate *out_fate);

/* ---- receiving blobs ---- */

/* Fetches a small blob as a whole into memory of size_bytes, and verifies it. */
TSR_RESULT tsr_blob_get(tsr_ctx *ctx, tsr_http *http, const tsr_digest *digest, size_t size_bytes,
                        void *bytes);

/* A range of a blob from `begin` on, in order; the sink keeps count. The sink is told where the
 * answer begins: at `begin`, or at 0 from a server without ranges. */
typedef struct tsr_blob_range {
    tsr_digest digest;
    uint64_t size_bytes; /* size of the blob */
    uint64_t begin, end; /* requested range */
    tsr_result (*sink)(tsr_ctx *ctx, void *user, uint64_t offset, const void *bytes,
                       size_t size_bytes);
    void *user;
    uint64_t next; /* set by the call: offset of the next byte of the answer */
} tsr_blob_range;
/* Makes one request without retry: *out_retry tells whether another one may succeed after an error.
 */
TSR_RESULT tsr_blob_get_range(tsr_ctx *ctx, tsr_http *http, tsr_blob_range *range,
                              tsr_http_response *response);

#endif
