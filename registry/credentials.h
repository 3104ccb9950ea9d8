/* SPDX-License-Identifier: Apache-2.0
 *
 * Logins from files in the form of docker's config.json (containers-auth.json(5)). Private to this
 * folder. Credential helpers are external programs; they are never started, and an entry that names
 * one is refused with a message.
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

/* Finds the entry with the most specific key for the repository in the first file that has one.
 * Fails with TSR_USAGE for a malformed file, TSR_DENIED if the login is left to a helper, TSR_IO if
 * a file exists but cannot be read. */
TSR_RESULT tsr_credential_find(tsr_ctx *ctx, const tsr_registry_options *options,
                               const tsr_reference *reference, tsr_credential *out_credential);
void tsr_credential_finish(tsr_credential *credential); /* accepts zeros */

/* Returns "Authorization: Basic …" for a password; owned by the caller; NULL if out of memory. */
char *tsr_credential_basic(const tsr_credential *credential);

#endif
