/* SPDX-License-Identifier: MIT */
/* version.h - which redlatch this is. */
#ifndef REDLATCH_VERSION_H
#define REDLATCH_VERSION_H

#define RDL_VERSION_MAJOR 1
#define RDL_VERSION_MINOR 0
#define RDL_VERSION_PATCH 0
#define RDL_VERSION "1.0.0-rc1"

/* RDL_API marks what the shared library exports; everything else in it is hidden. */
#if defined(__GNUC__)
#define RDL_API __attribute__((visibility("default")))
#else
#define RDL_API
#endif

/* What the RDL_..._INIT of an options struct is: zeroed, with its version. C++ has no designated initialisers before
 * 20, and warns of fields that an initialiser leaves out. */
#ifdef __cplusplus
extern "C++" {
template <typename options_t> inline options_t rdl_init_(unsigned version)
{
    options_t options = options_t();
    options.version = version;
    return options;
}
}
#define RDL_INIT_(type, number) (rdl_init_<type>(number))

extern "C" {
#else
#define RDL_INIT_(type, number)                                                                                        \
    {                                                                                                                  \
        .version = (number)                                                                                            \
    }
#endif

/* The version of the library that is linked: "major.minor.patch", or "major.minor.patch-rcN" of a candidate for it.
 * Static; never freed. */
RDL_API const char *rdl_version(void);

#ifdef __cplusplus
}
#endif
#endif
