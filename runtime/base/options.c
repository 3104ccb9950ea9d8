/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/options.h"

#include "runtime/base/plural.h"

#include <string.h>

tsr_result tsr_options_copy(tsr_ctx *ctx, const char *type, const void *options, void *out_options,
                            size_t size_bytes) {
    size_t given = size_bytes;
    if (options) memcpy(&given, options, sizeof given);
    if (given < sizeof given)
        FAIL(ctx, TSR_USAGE, "%s: size_bytes is %zu; expected sizeof(%s)", type, given, type);
    if (given > size_bytes)
        FAIL(ctx, TSR_USAGE, "%s has %zu byte%s; this libtessera knows only %zu", type, given,
             TSR_PLURAL(given), size_bytes);
    memset(out_options, 0, size_bytes);
    if (options) memcpy(out_options, options, given);
    memcpy(out_options, &size_bytes, sizeof size_bytes);
    return TSR_SUCCESS;
}
