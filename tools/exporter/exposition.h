/* SPDX-License-Identifier: MIT */
/* exposition.h - Prometheus' text format (0.0.4): metrics, labels and numbers. Pure. All metrics are gauges. */
#ifndef REDLATCH_EXPORTER_EXPOSITION_H
#define REDLATCH_EXPORTER_EXPOSITION_H

#include "tools/redlatch/findings.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define EXPOSITION_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* What comes before the samples of a metric, which stand together. */
void exposition_head(FILE *out, const char *metric, const char *help);

/* A label's value, within its quotes. Backslashes, control characters and bytes that are no UTF-8 become \xHH, as in
 * the text of rdl_metrics_text. */
void exposition_label(FILE *out, const char *bytes, size_t len);

/* A time as Prometheus has it, in seconds. */
void exposition_seconds(FILE *out, int64_t ms);

/* What rdl_doctor has found: how many of each severity, and each. */
void exposition_findings(FILE *out, const struct findings *f);

#endif
