/* SPDX-License-Identifier: Apache-2.0
 *
 * Logins from files in the form of docker's config.json (containers-auth.json(5)). Private to this
 * folder. Credential helpers are other programs: none is started, an entry that names one is
 * refused by a message.
 */
#ifndef TSR_REGISTRY_CREDENTIALS_H
#define TSR_REGISTRY_CREDENTIALS_H

#include "registry/reference.h"
#include "registry/registry.h"
#include "runtime/base/arena.h"

typedef enum tsr_credential_kind {
    TSR_CREDENTIAL_NONE,
    TSR_CREDENTIAL_PASSWORD, /* user and secret */
    TSR_CREDENTIAL_IDENTITY, /* secret: a refresh token for the token server */
    TSR_CREDENTIAL_TOKEN,    /* secret: a token for the registry itself */
} tsr_credential_kind;

typedef struct tsr_credential {
    tsr_credential_kind kind;
    char *user, *secret; /* owned; tsr_credential_finish overwrites them */
} tsr_credential;

/* The entry of the most exact key for the repository in the first file that has one. TSR_USAGE for
 * a malformed file, TSR_DENIED for one that leaves the login to a helper, TSR_IO when it is there
 * and cannot be read. */
TSR_RESULT tsr_credential_find(tsr_ctx *ctx, const tsr_registry_options *options,
                               const tsr_reference *reference, tsr_credential *out_credential);
void tsr_credential_finish(tsr_credential *credential); /* accepts zeros */

/* "Authorization: Basic …" of a password; owned by the caller; NULL without memory. */
char *tsr_credential_basic(const tsr_credential *credential);

#endif
