/* SPDX-License-Identifier: MIT */
/* session.h - a lock, held around one command. */
#ifndef REDLATCH_TOOL_SESSION_H
#define REDLATCH_TOOL_SESSION_H

#include "tools/redlatch/run_options.h"

/* Do what the options say, at the `count` servers `uris`: those of --redlock, or one. Returns the exit status
 * (exitcode.h); what there is to say has been said. Once a process: it takes the signals over, and must run on the main
 * thread (child.h). */
int session_run(const struct run_options *options, const char *const *uris, size_t count);

#endif
