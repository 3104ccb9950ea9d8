/* SPDX-License-Identifier: Apache-2.0
 *
 * Suggests the name that was probably meant when a name is unknown. The suggestion is added to the
 * diagnostic's text and as a fix-it.
 */
#ifndef TSR_COMPILER_DIAG_FIXIT_H
#define TSR_COMPILER_DIAG_FIXIT_H

#include "compiler/diag/diag.h"

/* A record whose text ends in "; did you mean 'NAME'?" gets a fix-it that replaces the wrong word
 * by NAME. The wrong word is the one that the record is about, else the last word that the text
 * quotes earlier; it is searched for in the source line from the record's column on. There is no
 * fix-it if the wrong text occurs several times. A record about an unknown op, value or symbol
 * first gets this question appended if a registered op, or a name in the source, is similar. Names
 * of values and symbols are searched for in the whole source: only for the first
 * TSR_DIAG_SUGGESTIONS_MAX errors. */
enum { TSR_DIAG_SUGGESTIONS_MAX = 100 };
void tsr_diag_add_fix(tsr_diag_list *list, tsr_diag *diag);

#endif
