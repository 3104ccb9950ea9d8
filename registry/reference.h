/* SPDX-License-Identifier: Apache-2.0
 *
 * A reference to an object in a registry: `host[:port]/name[:tag][@sha256:<digest>]`, as every OCI
 * tool writes it. There is no default host: a reference without a host is refused.
 */
#ifndef TSR_REGISTRY_REFERENCE_H
#define TSR_REGISTRY_REFERENCE_H

#include "runtime/base/hash/hash.h"
#include "runtime/base/result.h"

enum { TSR_REFERENCE_HOST_MAX = 255, TSR_REFERENCE_NAME_MAX = 255, TSR_REFERENCE_TAG_MAX = 128 };

typedef struct tsr_reference {
    char host[TSR_REFERENCE_HOST_MAX + 1]; /* including the port, as given */
    char name[TSR_REFERENCE_NAME_MAX + 1]; /* name of the repository */
    /* "latest" if neither tag nor digest is given; "" if only a digest is given */
    char tag[TSR_REFERENCE_TAG_MAX + 1];
    bool has_digest;
    tsr_digest digest; /* digest of the index blob */
} tsr_reference;

/* Fails with TSR_USAGE if the text is not a reference: OCI distribution specification 1.1, "Pulling
 * manifests". */
TSR_RESULT tsr_reference_parse(tsr_ctx *ctx, const char *text, tsr_reference *out_reference);
/* Checks only the name of a repository. */
bool tsr_reference_name_valid(const char *name);
/* True for localhost, 127.0.0.0/8, [::1]; `host` may include a port. */
bool tsr_host_is_loopback(const char *host);

#endif
