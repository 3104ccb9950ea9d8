/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/run/progress.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

enum { PART_BYTES_MAX = 128, OUTPUTS_MAX = 12, PARTS_MAX = OUTPUTS_MAX + 3, COLUMNS_DEFAULT = 80 };

typedef struct part {
    char text[PART_BYTES_MAX];
    unsigned rank; /* parts of a lower rank are laid out first */
    bool is_laid_out;
} part;

/* Every character from U+1100 (the first wide ones) on counts as two columns. */
static unsigned count_columns(const char *text) {
    unsigned columns = 0;
    for (const unsigned char *at = (const unsigned char *)text; *at; at++) {
        bool begins = (*at & 0xC0) != 0x80;
        bool wide = *at > 0xE1 || (*at == 0xE1 && at[1] >= 0x84);
        columns += begins ? 1u + wide : 0u;
    }
    return columns;
}

static size_t add_outputs(const tsr_step_report *step, part *parts) {
    size_t count = 0;
    for (size_t i = 0; i < step->output_count && count < OUTPUTS_MAX; i++) {
        const tsr_tensor *output = &step->outputs[i];
        if (output->shape.rank != 0) continue;
        int length = snprintf(parts[count].text, PART_BYTES_MAX, "  %s %.5g", output->name,
                              tsr_dtype_read(output->dtype, output->data, 0));
        if (length >= PART_BYTES_MAX) continue; /* a cut number would be a wrong one */
        parts[count].rank = count ? 4 : 2;
        count++;
    }
    return count;
}

void tsr_progress_format(const tsr_step_report *step, unsigned columns, char *out_text) {
    part parts[PARTS_MAX] = {{.rank = 0}};
    double done = (double)(step->step - step->first_step),
           rate = step->seconds > 0 ? done / step->seconds : 0;
    double left = rate > 0 ? (double)(step->last_step - step->step) / rate : 0;
    unsigned used = 0;
    size_t count = 1, length = 0;
    snprintf(parts[0].text, PART_BYTES_MAX, "step %" PRIu64 "/%" PRIu64, step->step,
             step->last_step);
    if (columns && count_columns(parts[0].text) > columns)
        snprintf(parts[0].text, PART_BYTES_MAX, "step %" PRIu64, step->step);
    count += add_outputs(step, &parts[1]);
    snprintf(parts[count].text, PART_BYTES_MAX, "  %.0f samples/s", rate * (double)step->samples);
    parts[count++].rank = 1;
    snprintf(parts[count].text, PART_BYTES_MAX, "  ETA %.0f s", left);
    parts[count++].rank = 3;
    for (unsigned rank = 0; rank <= 4; rank++)
        for (size_t i = 0; i < count; i++) {
            unsigned more = count_columns(parts[i].text);
            if (parts[i].rank != rank || (columns && used + more > columns)) continue;
            parts[i].is_laid_out = true;
            used += more;
        }
    out_text[0] = 0;
    for (size_t i = 0; i < count; i++) {
        if (!parts[i].is_laid_out) continue;
        size_t size = strlen(parts[i].text);
        memcpy(out_text + length, parts[i].text, size + 1);
        length += size;
    }
}

static_assert((int)PARTS_MAX * (int)PART_BYTES_MAX <= (int)TSR_PROGRESS_BYTES_MAX, "all parts fit");

unsigned tsr_progress_columns(int fd) {
    struct winsize size = {0};
    bool known = ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
    return known ? size.ws_col : COLUMNS_DEFAULT;
}
