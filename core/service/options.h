/* SPDX-License-Identifier: MIT */
/* options.h - a client's options, checked. */
#ifndef REDLATCH_SERVICE_OPTIONS_H
#define REDLATCH_SERVICE_OPTIONS_H

#include "core/wire/uri.h"

#include <redlatch/client.h>

/* Copy the options with defaults filled in, or say what is wrong with them. RDL_OK or RDL_EINVAL. */
int rdl__client_options_check(const rdl_client_options_t *given, rdl_client_options_t *o, rdl_err_t *err);

/* Do they go with the URI? RDL_OK or RDL_EINVAL. */
int rdl__client_options_fit(const rdl_client_options_t *o, const struct rdl__uri *uri, rdl_err_t *err);

#endif
