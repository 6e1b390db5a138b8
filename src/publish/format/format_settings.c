/*
 * Reads the settings message.*.
 */
#include "publish/format/format.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "config/settings.h"
#include "publish/format/template.h"

static bool is_debezium(wh_format_kind kind)
{
	return kind == WH_FORMAT_DEBEZIUM || kind == WH_FORMAT_EXPANDED;
}

static bool is_event(wh_format_kind kind)
{
	return kind == WH_FORMAT_CLOUDEVENTS || kind == WH_FORMAT_STRUCTURED;
}

static wherry_code copy(const char *text, char **out, wherry_error *err)
{
	*out = strdup(text);
	return *out ? WHERRY_OK : wh_oom(err);
}

static wherry_code read_template(const char *text, const char *name, char **out,
				 wherry_error *err)
{
	wherry_code code = wh_utf8_valid(text, strlen(text))
				   ? wh_template_check(text, err)
				   : wh_fail(err, WHERRY_INVALID, "it is not UTF-8");

	return code == WHERRY_OK ? copy(text, out, err)
				 : wh_prefix(err, code, "message.%s", name);
}

static wherry_code read_source(const wherry_config *config, wh_format *out,
			       wherry_error *err)
{
	const char *source = wh_config_text(config, WH_MESSAGE_SOURCE);

	if (!*source && is_event(out->kind))
		return wh_fail(err, WHERRY_INVALID,
			       "message.source must not be empty: a CloudEvent has one");
	return copy(source, &out->source, err);
}

static wherry_code read_placements(const wherry_config *config, wh_format *out,
				   wherry_error *err)
{
	const char *text = wh_config_text(config, WH_MESSAGE_PLACEMENT);

	return *text && is_debezium(out->kind) ? wh_debezium_placements(text, out, err)
					       : WHERRY_OK;
}

static wherry_code read_rules(const wherry_config *config, wh_format *out,
			      wherry_error *err)
{
	wherry_code code = wh_header_rules_read(
		wh_config_text(config, WH_MESSAGE_HEADERS), &out->rules, err);

	return code == WHERRY_OK ? code : wh_prefix(err, code, "message.headers");
}

static const char *topic_of(const wherry_config *config, wh_format_kind kind)
{
	const char *topic = wh_config_text(config, WH_MESSAGE_TOPIC);

	return !*topic && is_debezium(kind) ? "outbox.event.{aggregate_type}" : topic;
}

wherry_code wh_format_read(const wherry_config *config, const wh_binding *binding,
			   wh_format *out, bool *out_used, wherry_error *err)
{
	wh_format f = {
		.kind = (wh_format_kind)wh_config_choice(config, WH_MESSAGE_FORMAT),
		.binding = binding,
		.schema_id = (uint32_t)wh_config_int(config, WH_MESSAGE_SCHEMA_ID)};
	wherry_code code = read_source(config, &f, err);

	if (code == WHERRY_OK)
		code = read_template(wh_config_text(config, WH_MESSAGE_TYPE), "type",
				     &f.type, err);
	if (code == WHERRY_OK)
		code = read_template(topic_of(config, f.kind), "topic", &f.topic, err);
	if (code == WHERRY_OK)
		code = read_template(wh_config_text(config, WH_MESSAGE_KEY), "key",
				     &f.key, err);
	if (code == WHERRY_OK)
		code = read_placements(config, &f, err);
	if (code == WHERRY_OK)
		code = read_rules(config, &f, err);
	if (code != WHERRY_OK) {
		wh_format_clear(&f);
		return code;
	}
	f.writes = f.kind != WH_FORMAT_RAW || f.rules.n;
	f.parses = f.writes || wh_template_has_header(f.topic) ||
		   wh_template_has_header(f.key) || wh_header_rules_ask(&f.rules);
	*out = f;
	*out_used = f.writes || *f.topic || *f.key || f.schema_id;
	return WHERRY_OK;
}

void wh_format_clear(wh_format *format)
{
	free(format->source);
	free(format->type);
	free(format->topic);
	free(format->key);
	wh_header_rules_clear(&format->rules);
	for (size_t i = 0; i < format->n_placements; i++)
		free(format->placements[i].alias);
	*format = (wh_format){.kind = WH_FORMAT_RAW};
}

wherry_code wh_format_check(const wherry_config *config, wherry_error *err)
{
	wh_format format;
	bool used;
	wherry_code code = wh_format_read(config, NULL, &format, &used, err);

	if (code == WHERRY_OK)
		wh_format_clear(&format);
	return code;
}

bool wh_format_renames(const wherry_config *config)
{
	wh_format_kind kind = (wh_format_kind)wh_config_choice(config, WH_MESSAGE_FORMAT);

	return *topic_of(config, kind) || *wh_config_text(config, WH_MESSAGE_KEY);
}
