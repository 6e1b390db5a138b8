#include "publish/format/header_rules.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "publish/format/template.h"

enum { RULES_MOST = 64 };

static const char blanks[] = " \t\r";

void wh_header_rules_clear(wh_header_rules *rules)
{
	for (size_t i = 0; i < rules->n; i++) {
		free(rules->rules[i].name);
		free(rules->rules[i].to);
	}
	free(rules->rules);
	*rules = (wh_header_rules){NULL, 0};
}

/* Take the next word of a rule.  It is empty if there is none. */
static wh_view take_word(const char **at, const char *end)
{
	const char *from = *at + strspn(*at, blanks);
	size_t len = strcspn(from, " \t\r;\n");

	if (from > end)
		from = end;
	if (len > (size_t)(end - from))
		len = (size_t)(end - from);
	*at = from + len;
	return (wh_view){from, len};
}

/* The rest of a rule, without the blanks around it. */
static wh_view take_rest(const char **at, const char *end)
{
	const char *from = *at + strspn(*at, blanks);
	const char *to = end;

	if (from > end)
		from = end;
	while (to > from && strchr(blanks, to[-1]))
		to--;
	*at = end;
	return (wh_view){from, (size_t)(to - from)};
}

static bool is_word(wh_view view, const char *word)
{
	return wh_view_eq(view, wh_view_of(word));
}

static wherry_code bad_rule(const char *from, const char *end, wherry_error *err)
{
	int len = (int)(end - from < 80 ? end - from : 80);

	return wh_fail(err, WHERRY_INVALID,
		       "'%.*s' is not a rule: write 'drop NAME', 'rename NAME NEW' or "
		       "'add NAME VALUE', with ';' between rules",
		       len, from);
}

/* Read the rule between from and end, which is not blank. */
static wherry_code read_rule(const char *from, const char *end, wh_header_rule *out,
			     wherry_error *err)
{
	const char *at = from;
	wh_view verb = take_word(&at, end), name = take_word(&at, end), to = {NULL, 0};
	wherry_code code = WHERRY_OK;

	if (is_word(verb, "drop"))
		out->kind = WH_RULE_DROP;
	else if (is_word(verb, "rename"))
		out->kind = WH_RULE_RENAME;
	else if (is_word(verb, "add"))
		out->kind = WH_RULE_ADD;
	else
		return bad_rule(from, end, err);
	if (out->kind == WH_RULE_RENAME)
		to = take_word(&at, end);
	if (out->kind == WH_RULE_ADD)
		to = take_rest(&at, end);
	if (!name.len || (out->kind != WH_RULE_DROP && !to.len) ||
	    take_rest(&at, end).len)
		return bad_rule(from, end, err);
	out->name = strndup(name.ptr, name.len);
	out->to = to.len ? strndup(to.ptr, to.len) : NULL;
	if (!out->name || (to.len && !out->to))
		code = wh_oom(err);
	else if (out->kind == WH_RULE_ADD)
		code = wh_template_check(out->to, err);
	if (code == WHERRY_OK)
		return code;
	free(out->name);
	free(out->to);
	return code;
}

static wherry_code add_rule(wh_header_rules *rules, const char *from, const char *end,
			    wherry_error *err)
{
	wh_header_rule *grown;
	wherry_code code;

	if (rules->n == RULES_MOST)
		return wh_fail(err, WHERRY_INVALID, "there are more than %d rules",
			       RULES_MOST);
	grown = realloc(rules->rules, (rules->n + 1) * sizeof(*grown));
	if (!grown)
		return wh_oom(err);
	rules->rules = grown;
	code = read_rule(from, end, &grown[rules->n], err);
	rules->n += code == WHERRY_OK;
	return code;
}

wherry_code wh_header_rules_read(const char *text, wh_header_rules *out,
				 wherry_error *err)
{
	wh_header_rules rules = {NULL, 0};
	wherry_code code = WHERRY_OK;

	if (!wh_utf8_valid(text, strlen(text)))
		return wh_fail(err, WHERRY_INVALID, "the rules are not UTF-8");
	while (*text && code == WHERRY_OK) {
		const char *end;

		text += strspn(text, blanks);
		end = text + strcspn(text, ";\n");
		if (end > text)
			code = add_rule(&rules, text, end, err);
		text = end + (*end != 0);
	}
	if (code == WHERRY_OK)
		*out = rules;
	else
		wh_header_rules_clear(&rules);
	return code;
}

bool wh_header_rules_ask(const wh_header_rules *rules)
{
	for (size_t i = 0; i < rules->n; i++)
		if (rules->rules[i].kind == WH_RULE_ADD &&
		    wh_template_has_header(rules->rules[i].to))
			return true;
	return false;
}

static void drop(const char *name, json_t *headers)
{
	size_t len = strlen(name);
	const char *at;
	json_t *value;
	void *next;

	if (!len || name[len - 1] != '*') {
		(void)json_object_del(headers, name);
		return;
	}
	json_object_foreach_safe(headers, next, at,
				 value) if (strncmp(at, name, len - 1) == 0)(void)
		json_object_del(headers, at);
}

static wherry_code set_new(json_t *headers, const char *name, json_t *value,
			   wherry_error *err)
{
	if (json_object_get(headers, name)) {
		json_decref(value);
		return wh_fail(err, WHERRY_INVALID,
			       "message.headers: the message has a header '%.60s' "
			       "already; drop it first: drop %.60s",
			       name, name);
	}
	/* json_object_set_new() takes the reference, also where it fails. */
	return json_object_set_new(headers, name, value) == 0 ? WHERRY_OK : wh_oom(err);
}

static wherry_code apply(const wh_header_rule *rule, const wherry_message *msg,
			 json_t *own, json_t *headers, wherry_error *err)
{
	wh_buf text = WH_BUF_INIT(1 << 20);
	json_t *value = json_object_get(headers, rule->name);
	wherry_code code;

	if (rule->kind == WH_RULE_DROP) {
		drop(rule->name, headers);
		return WHERRY_OK;
	}
	if (rule->kind == WH_RULE_RENAME) {
		if (!value || strcmp(rule->name, rule->to) == 0)
			return WHERRY_OK;
		code = set_new(headers, rule->to, json_incref(value), err);
		if (code == WHERRY_OK)
			(void)json_object_del(headers, rule->name);
		return code;
	}
	code = wh_template_put(rule->to, msg, own, &text, err);
	if (code == WHERRY_OK && !wh_utf8_valid(wh_buf_str(&text), text.len))
		code = wh_fail(err, WHERRY_INVALID, "the value is not UTF-8");
	if (code == WHERRY_OK)
		code = set_new(headers, rule->name, json_string(wh_buf_str(&text)), err);
	else
		(void)wh_prefix(err, code, "message.headers: add %.60s", rule->name);
	wh_buf_clear(&text);
	return code;
}

wherry_code wh_header_rules_apply(const wh_header_rules *rules, const wherry_message *msg,
				  json_t *own, json_t *headers, wherry_error *err)
{
	wherry_code code = WHERRY_OK;

	for (size_t i = 0; i < rules->n && code == WHERRY_OK; i++)
		code = apply(&rules->rules[i], msg, own, headers, err);
	return code;
}
