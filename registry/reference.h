/* SPDX-License-Identifier: Apache-2.0
 *
 * Where something lies in a registry: `host[:port]/name[:tag][@sha256:<digest>]`, as every OCI tool
 * writes it. Nothing is guessed: a reference without a host is refused.
 */
#ifndef TSR_REGISTRY_REFERENCE_H
#define TSR_REGISTRY_REFERENCE_H

#include "runtime/base/hash.h"
#include "runtime/base/result.h"

enum { TSR_REFERENCE_HOST_MAX = 255, TSR_REFERENCE_NAME_MAX = 255, TSR_REFERENCE_TAG_MAX = 128 };

typedef struct tsr_reference {
    char host[TSR_REFERENCE_HOST_MAX + 1]; /* with the port, as given */
    char name[TSR_REFERENCE_NAME_MAX + 1]; /* of the repository */
    char tag[TSR_REFERENCE_TAG_MAX + 1];   /* "latest" when neither tag nor digest is given; "" when
                                              only a digest is */
    bool has_digest;
    tsr_digest digest; /* of the index blob */
} tsr_reference;

/* TSR_USAGE when the text is no reference: OCI distribution specification 1.1, "Pulling manifests".
 */
TSR_RESULT tsr_reference_parse(tsr_ctx *ctx, const char *text, tsr_reference *out_reference);
/* The name of a repository alone. */
bool tsr_reference_name_valid(const char *name);
/* localhost, 127.0.0.0/8, [::1]: `host` may have a port. */
bool tsr_host_is_loopback(const char *host);

#endif
