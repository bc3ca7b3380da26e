/* What WebKit keeps for sites: cookies by its own manager, and all else by a script in a document of each origin.
 *
 * The document of an origin is a blank one that is loaded under its address, so no site hears of it. It is in a view of its own
 * that has no window and that no inspector sees; only what belongs to a tab is written in the first view. */
#include "shell.h"

#include <string.h>

/* The most origins that are remembered. */
enum { MOST_ORIGINS = 2000 };
/* The longest name of a host, in bytes: no look-up takes a longer one, and a page may ask for what it likes. */
enum { LONGEST_HOST = 255 };
/* Seconds that an origin may take. */
enum { PATIENCE = 20 };
/* A document that asks for nothing, not even an icon. */
static const char BLANK[] = "<!doctype html><link rel=icon href=data:,>";

/* Origins that views have asked for something, with whether one was a page's own. */
static GHashTable *visited;

static void remember(const char *url, gboolean is_page) {
  g_autoptr(GUri) parsed = url ? g_uri_parse(url, G_URI_FLAGS_PARSE_RELAXED, NULL) : NULL;
  const char *scheme = parsed ? g_uri_get_scheme(parsed) : NULL;
  if (!scheme || (strcmp(scheme, "http") != 0 && strcmp(scheme, "https") != 0)) {
    return;
  }
  const char *host = g_uri_get_host(parsed);
  if (host && strlen(host) > LONGEST_HOST) {
    return;
  }
  int port = g_uri_get_port(parsed);
  gboolean is_usual = port == -1 || port == (scheme[4] == 's' ? 443 : 80);
  gboolean is_v6 = host && strchr(host, ':');
  GString *origin = g_string_new(scheme);
  g_string_append_printf(origin, is_v6 ? "://[%s]" : "://%s", host ? host : "");
  if (!is_usual) {
    g_string_append_printf(origin, ":%d", port);
  }
  char *key = g_string_free(origin, FALSE);
  if (g_hash_table_size(visited) >= MOST_ORIGINS || (!is_page && g_hash_table_contains(visited, key))) {
    g_free(key);
    return;
  }
  g_hash_table_insert(visited, key, GINT_TO_POINTER(is_page));
}

static void on_load_changed(WebKitWebView *view, WebKitLoadEvent event, gpointer data) {
  (void)data;
  if (event == WEBKIT_LOAD_COMMITTED) {
    remember(webkit_web_view_get_uri(view), TRUE);
  }
}

static void on_resource(WebKitWebView *view, WebKitWebResource *resource, WebKitURIRequest *request, gpointer data) {
  (void)view, (void)resource, (void)data;
  remember(webkit_uri_request_get_uri(request), FALSE);
}

void storage_watch(WebKitWebView *view) {
  if (!visited) {
    visited = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
  }
  g_signal_connect(view, "load-changed", G_CALLBACK(on_load_changed), NULL);
  g_signal_connect(view, "resource-load-started", G_CALLBACK(on_resource), NULL);
}

static void append(GString *line, const char *text) {
  g_autofree char *valid = g_utf8_make_valid(text ? text : "", -1);
  g_string_append_uri_escaped(line, valid, NULL, FALSE);
}

/* Whether a site's data are of a host: sites go by the name below which everybody may register. */
static gboolean is_of(const char *origin, GList *sites) {
  g_autoptr(GUri) parsed = g_uri_parse(origin, G_URI_FLAGS_NONE, NULL);
  const char *host = parsed ? g_uri_get_host(parsed) : NULL;
  for (GList *at = sites; host && at; at = at->next) {
    const char *name = webkit_website_data_get_name(at->data);
    gsize length = strlen(host), end = strlen(name);
    if (strcmp(host, name) == 0 ||
        (length > end && host[length - end - 1] == '.' && strcmp(host + length - end, name) == 0)) {
      return TRUE;
    }
  }
  return FALSE;
}

static void on_sites(GObject *manager, GAsyncResult *result, gpointer data) {
  (void)data;
  GList *sites = webkit_website_data_manager_fetch_finish(WEBKIT_WEBSITE_DATA_MANAGER(manager), result, NULL);
  g_autoptr(GString) line = g_string_new("ok");
  GHashTableIter each;
  gpointer origin, is_page;
  g_hash_table_iter_init(&each, visited);
  while (g_hash_table_iter_next(&each, &origin, &is_page)) {
    if (is_page || is_of(origin, sites)) {
      g_string_append_c(line, ' ');
      append(line, origin);
    }
  }
  g_list_free_full(sites, (GDestroyNotify)webkit_website_data_unref);
  command_answer("%s", line->str);
}

void storage_origins(const Shell *shell) {
  WebKitWebsiteDataManager *manager = webkit_web_context_get_website_data_manager(shell->context);
  webkit_website_data_manager_fetch(manager,
                                    WEBKIT_WEBSITE_DATA_LOCAL_STORAGE | WEBKIT_WEBSITE_DATA_INDEXEDDB_DATABASES, NULL,
                                    on_sites, NULL);
}

static const char POLICIES[] = {[SOUP_SAME_SITE_POLICY_NONE] = 'N', [SOUP_SAME_SITE_POLICY_LAX] = 'L',
                                [SOUP_SAME_SITE_POLICY_STRICT] = 'S'};

static void on_cookies(GObject *manager, GAsyncResult *result, gpointer data) {
  (void)data;
  GList *cookies = webkit_cookie_manager_get_all_cookies_finish(WEBKIT_COOKIE_MANAGER(manager), result, NULL);
  g_autoptr(GString) line = g_string_new("ok");
  for (GList *at = cookies; at; at = at->next) {
    SoupCookie *cookie = at->data;
    const char *texts[] = {soup_cookie_get_name(cookie), soup_cookie_get_value(cookie), soup_cookie_get_domain(cookie),
                           soup_cookie_get_path(cookie)};
    for (gsize text = 0; text < G_N_ELEMENTS(texts); text++) {
      g_string_append_c(line, text == 0 ? ' ' : '/');
      append(line, texts[text]);
    }
    GDateTime *expires = soup_cookie_get_expires(cookie);
    g_string_append_printf(line, "/%" G_GINT64_FORMAT "/%s%s%c", expires ? g_date_time_to_unix(expires) : -1,
                           soup_cookie_get_http_only(cookie) ? "h" : "", soup_cookie_get_secure(cookie) ? "s" : "",
                           POLICIES[soup_cookie_get_same_site_policy(cookie)]);
  }
  g_list_free_full(cookies, (GDestroyNotify)soup_cookie_free);
  command_answer("%s", line->str);
}

void storage_cookies(const Shell *shell) {
  WebKitCookieManager *manager = webkit_web_context_get_cookie_manager(shell->context);
  webkit_cookie_manager_get_all_cookies(manager, NULL, on_cookies, NULL);
}

/* A cookie from its parts, as storage_cookies writes them. NULL when they are none. */
static SoupCookie *cookie_from(const char *text) {
  g_auto(GStrv) parts = g_strsplit(text, "/", -1);
  if (g_strv_length(parts) != 6) {
    return NULL;
  }
  for (int at = 0; at < 4; at++) {
    char *plain = g_uri_unescape_string(parts[at], NULL);
    if (!plain) {
      return NULL;
    }
    g_free(parts[at]);
    parts[at] = plain;
  }
  SoupCookie *cookie = soup_cookie_new(parts[0], parts[1], parts[2], parts[3], -1);
  gint64 expires = g_ascii_strtoll(parts[4], NULL, 10);
  if (expires >= 0) {
    g_autoptr(GDateTime) at = g_date_time_new_from_unix_utc(expires);
    soup_cookie_set_expires(cookie, at);
  }
  const char *flags = parts[5];
  soup_cookie_set_http_only(cookie, strchr(flags, 'h') != NULL);
  soup_cookie_set_secure(cookie, strchr(flags, 's') != NULL);
  soup_cookie_set_same_site_policy(cookie, strchr(flags, 'S')   ? SOUP_SAME_SITE_POLICY_STRICT
                                           : strchr(flags, 'L') ? SOUP_SAME_SITE_POLICY_LAX
                                                                : SOUP_SAME_SITE_POLICY_NONE);
  return cookie;
}

/* Cookies that are not set yet, and one for whoever counts. */
static guint unset;

static void count_cookie(void) {
  if (--unset == 0) {
    command_answer("ok");
  }
}

static void on_cookie_set(GObject *manager, GAsyncResult *result, gpointer data) {
  (void)data;
  webkit_cookie_manager_add_cookie_finish(WEBKIT_COOKIE_MANAGER(manager), result, NULL);
  count_cookie();
}

void storage_set_cookies(const Shell *shell, const char *cookies) {
  WebKitCookieManager *manager = webkit_web_context_get_cookie_manager(shell->context);
  g_auto(GStrv) all = g_strsplit(cookies, " ", -1);
  unset = 1;
  for (char **at = all; *at; at++) {
    SoupCookie *cookie = cookie_from(*at);
    if (cookie) {
      unset++;
      webkit_cookie_manager_add_cookie(manager, cookie, NULL, on_cookie_set, NULL);
      soup_cookie_free(cookie);
    }
  }
  count_cookie();
}

/* The visit of an origin. */
typedef struct {
  WebKitWebView *view;
  char *script;
  char *argument;
  gulong handler;
  guint limit; /* a timer; 0 once the command was answered */
} Visit;

static void visit_free(Visit *visit) {
  if (visit->limit) {
    g_source_remove(visit->limit);
  }
  if (visit->handler) {
    g_signal_handler_disconnect(visit->view, visit->handler);
  }
  g_object_unref(visit->view);
  g_free(visit->script);
  g_free(visit->argument);
  g_free(visit);
}

static void on_visited(GObject *view, GAsyncResult *result, gpointer data) {
  Visit *visit = data;
  g_autoptr(GError) error = NULL;
  g_autoptr(JSCValue) value =
      webkit_web_view_call_async_javascript_function_finish(WEBKIT_WEB_VIEW(view), result, &error);
  if (visit->limit && value) {
    g_autofree char *text = jsc_value_to_string(value);
    g_autoptr(GString) line = g_string_new("ok ");
    append(line, text);
    command_answer("%s", line->str);
  } else if (visit->limit) {
    g_autofree char *reason = g_strdelimit(g_strdup(error->message), "\r\n", ' ');
    command_answer("failed %s", reason);
  }
  visit_free(visit);
}

static gboolean on_visit_limit(gpointer data) {
  Visit *visit = data;
  visit->limit = 0;
  command_answer("failed it took too long");
  return G_SOURCE_REMOVE;
}

static void run(Visit *visit, const char *world) {
  GVariantDict arguments;
  g_variant_dict_init(&arguments, NULL);
  g_variant_dict_insert(&arguments, "asked", "s", visit->argument);
  g_autofree char *body = g_strconcat("return (", visit->script, ")(asked)", NULL);
  webkit_web_view_call_async_javascript_function(visit->view, body, -1, g_variant_dict_end(&arguments), world, NULL, NULL,
                                                 on_visited, visit);
}

static void on_visit_loaded(WebKitWebView *view, WebKitLoadEvent event, gpointer data) {
  Visit *visit = data;
  if (event == WEBKIT_LOAD_FINISHED && visit->handler) {
    g_signal_handler_disconnect(view, visit->handler);
    visit->handler = 0;
    run(visit, NULL);
  }
}

static Visit *visit_new(WebKitWebView *view, const char *script, const char *argument) {
  Visit *visit = g_new0(Visit, 1);
  visit->view = view;
  visit->script = g_strdup(script);
  visit->argument = g_strdup(argument);
  visit->limit = g_timeout_add_seconds(PATIENCE, on_visit_limit, visit);
  return visit;
}

void storage_visit(const Shell *shell, const char *origin, const char *script, const char *argument, gboolean in_first) {
  WebKitWebView *view;
  if (in_first) {
    view = g_object_ref(shell->views->data);
  } else {
    /* Without the inspector's settings, so that no client sees it. */
    g_autoptr(WebKitSettings) settings = webkit_settings_new();
    view = g_object_ref_sink(
        g_object_new(WEBKIT_TYPE_WEB_VIEW, "web-context", shell->context, "settings", settings, NULL));
  }
  Visit *visit = visit_new(view, script, argument);
  visit->handler = g_signal_connect(view, "load-changed", G_CALLBACK(on_visit_loaded), visit);
  g_autofree char *address = g_strconcat(origin, "/", NULL);
  remember(address, TRUE);
  webkit_web_view_load_html(view, BLANK, address);
}

/* Asks the document that the first view shows, where it is one of the web. */
void storage_ask_first(const Shell *shell, const char *script, const char *argument) {
  WebKitWebView *view = shell->views->data;
  const char *url = webkit_web_view_get_uri(view);
  if (!url || !g_str_has_prefix(url, "http")) {
    command_answer("ok");
    return;
  }
  run(visit_new(g_object_ref(view), script, argument), "warmpool");
}

static void on_left(WebKitWebView *view, WebKitLoadEvent event, gpointer data) {
  if (event == WEBKIT_LOAD_FINISHED) {
    g_signal_handlers_disconnect_by_func(view, G_CALLBACK(on_left), data);
    command_answer("ok");
  }
}

/* Leaves the origins that the first view has visited, and its history does not tell of them. */
void storage_leave(const Shell *shell) {
  WebKitWebView *view = shell->views->data;
  g_signal_connect(view, "load-changed", G_CALLBACK(on_left), NULL);
  webkit_web_view_load_uri(view, "about:blank");
}
