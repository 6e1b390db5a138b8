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
#if __cplusplus >= 202002L
/* As in C, since C++20: a struct that lives until the end of the statement, so that its address
 * can be an argument.  Before C++20 set `size` and the members yourself, which begin as zero
 * with `= {}`. */
template <class wherry_type>
constexpr const wherry_type &wherry_sized(const wherry_type &value) noexcept
{
	return value;
}
#define WHERRY_SIZED(type, ...)                                                          \
	(wherry_sized<type>({.size = sizeof(type) __VA_OPT__(, ) __VA_ARGS__}))
#endif
#else
#define WHERRY_BEGIN
#define WHERRY_END
/* A struct that begins with its size, with the members that are given; the others are zero. */
#define WHERRY_SIZED(type, ...) ((type){.size = sizeof(type), __VA_ARGS__})
#endif

#endif
