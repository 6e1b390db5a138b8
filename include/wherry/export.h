/* Marks what libwherry exports, and results that must be looked at. */
#ifndef WHERRY_EXPORT_H
#define WHERRY_EXPORT_H

#if defined(__GNUC__)
#define WHERRY_API __attribute__((visibility("default")))
#define WHERRY_MUST_USE __attribute__((warn_unused_result))
#else
#define WHERRY_API
#define WHERRY_MUST_USE
#endif

#ifdef __cplusplus
#define WHERRY_BEGIN extern "C" {
#define WHERRY_END }
#else
#define WHERRY_BEGIN
#define WHERRY_END
/* A struct that begins with its size, with the members that are given; the others are zero.
 * In C++ set `size` and the members yourself, which begin as zero with `= {}`. */
#define WHERRY_SIZED(type, ...) ((type){.size = sizeof(type), __VA_ARGS__})
#endif

#endif
