/* SPDX-License-Identifier: Apache-2.0
 *
 * in-toto statements about a bundle: the text that is signed. Private to this folder.
 */
#ifndef TSR_BUNDLE_TRUST_STATEMENT_H
#define TSR_BUNDLE_TRUST_STATEMENT_H

#include "bundle/bundle.h"
#include "runtime/base/buffer.h"

#define TSR_STATEMENT_TYPE "https://in-toto.io/Statement/v1"

/* Appends an in-toto Statement v1 whose subject is the index of the bundle. `type` is a URI,
 * `predicate` JSON. */
void tsr_statement_format(const tsr_bundle *bundle, const char *type, const char *predicate,
                          size_t predicate_size, tsr_buffer *out_json);

/* Signs the statement with a private key and writes the Sigstore bundle, whole or not at all. */
TSR_RESULT tsr_statement_write(tsr_ctx *ctx, const char *path, const tsr_buffer *statement,
                               const char *private_path, tsr_digest *out_key_id);

#endif
