/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/run/state.h"

#include "runtime/base/buffer.h"
#include "runtime/store.h"
#include "tools/common/lines.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

void tsr_state_log_line(void *user, const char *line) {
    tsr_lines *lines = user;
    tsr_buffer text = {0};
    tsr_buffer_printf(&text, "%s\n", line);
    if (text.failed) tsr_lines_fail(lines, ENOMEM);
    tsr_lines_append(lines, text.bytes, text.size_bytes);
    tsr_buffer_finish(&text);
}

tsr_result tsr_state_export(tsr_ctx *ctx, const char *directory, bool has_generation,
                            uint64_t generation, const char *path) {
    tsr_recovery recovery;
    char hash[TSR_DIGEST_HEX + 1];
    TRY(ctx, tsr_store_export(ctx, directory, has_generation ? TSR_RESUME_EXACT : TSR_RESUME_AUTO,
                              generation, path, &recovery));
    tsr_digest_format(&recovery.generation.state_hash, hash);
    printf("exported generation %" PRIu64 " step %" PRIu64 " state %s\n",
           recovery.generation.number, recovery.generation.position.step, hash);
    return TSR_SUCCESS;
}
