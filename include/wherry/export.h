/* Macros: exported functions, results that callers must check, and structs with a size. */
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
/* Since C++20: a struct like that in C below.  It lives until the end of the statement, so its
 * address can be an argument.  Before C++20 begin with `= {}`, which sets all members to zero, and
 * set `size` and the members yourself. */
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
/* A struct with its size and the given members; the others are zero.  Wherry reads no member beyond
 * the size, so that later versions can add members at the end. */
#define WHERRY_SIZED(type, ...) ((type){.size = sizeof(type), __VA_ARGS__})
#endif

#endif
