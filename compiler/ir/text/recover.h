/* SPDX-License-Identifier: Apache-2.0
 *
 * All errors of a text, not only the first: MLIR's parser stops at its first error, and so does its
 * verifier in each function.
 */
#ifndef TSR_COMPILER_IR_RECOVER_H
#define TSR_COMPILER_IR_RECOVER_H

#include "compiler/diag/diag.h"

/* Call it after a text could not be parsed, with the list that got the error. Adds the first error
 * of each other function: each function with an error is blanked, and the text is parsed again.
 * Functions that can be parsed are verified. At most TSR_PARSE_ERRORS_MAX errors are added. */
enum { TSR_PARSE_ERRORS_MAX = 20 };
void tsr_recover_errors(tsr_diag_list *list, MlirContext context, MlirStringRef text,
                        const char *name);

/* Verifies the module; false after errors: those of all ops, each once, at most
 * TSR_VERIFY_ERRORS_MAX. */
enum { TSR_VERIFY_ERRORS_MAX = 100 };
bool tsr_verify_all(tsr_diag_list *list, MlirModule module);

#endif
