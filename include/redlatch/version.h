/* version.h - which redlatch this is. */
#ifndef REDLATCH_VERSION_H
#define REDLATCH_VERSION_H

#define RDL_VERSION_MAJOR 0
#define RDL_VERSION_MINOR 1
#define RDL_VERSION_PATCH 0
#define RDL_VERSION "0.1.0"

/* RDL_API marks what the shared library exports; everything else in it is hidden. */
#if defined(__GNUC__)
#define RDL_API __attribute__((visibility("default")))
#else
#define RDL_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the library that is linked, "major.minor.patch". Static; never freed. */
RDL_API const char *rdl_version(void);

#ifdef __cplusplus
}
#endif
#endif
