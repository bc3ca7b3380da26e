//! Pages that people record and read: a search, a shop with shadow roots and frames, a login over several pages.

use std::collections::BTreeMap;

use axum::Router;
use axum::extract::Query;
use axum::http::header::{COOKIE, LOCATION, SET_COOKIE};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;

/// The one password of the one account.
pub const PASSWORD: &str = "correct horse";

/// Teas: name, price in cents, whether there is any, when it was picked.
const TEAS: [(&str, u32, bool, &str); 12] = [
    ("Assam", 650, true, "2024-04-02"),
    ("Bancha", 480, true, "2024-05-11"),
    ("Ceylon", 520, false, "2024-03-20"),
    ("Darjeeling", 1290, true, "2024-03-08"),
    ("Earl Grey", 590, true, "2024-02-01"),
    ("Genmaicha", 540, true, "2024-06-30"),
    ("Gyokuro", 2400, false, "2024-05-01"),
    ("Keemun", 880, true, "2024-04-15"),
    ("Lapsang Souchong", 760, true, "2024-01-12"),
    ("Matcha", 1950, true, "2024-05-05"),
    ("Oolong", 990, false, "2024-07-21"),
    ("Sencha", 720, true, "2024-05-28"),
];

/// How many teas a page of results has.
const PAGE: usize = 4;

type Fields = BTreeMap<String, String>;

/// The routes of these pages.
pub(super) fn routes<S: Clone + Send + Sync + 'static>() -> Router<S> {
    Router::new()
        .route("/search", get(|| async { Html(SEARCH) }))
        .route("/search/results", get(results))
        .route("/shop", get(|| async { Html(SHOP) }))
        .route("/shop/checkout", get(|| async { Html(CHECKOUT) }))
        .route("/shop/payment", get(|| async { Html(PAYMENT) }))
        .route("/shop/card", get(|| async { Html(CARD) }))
        .route("/shop/thanks", get(thanks))
        .route("/login", get(|| async { Html(LOGIN) }).post(password))
        .route("/login/password", axum::routing::post(log_in))
        .route("/account", get(account))
        .route("/stage", get(|| async { Html(STAGE) }))
        .route("/article", get(|| async { Html(ARTICLE) }))
        .route("/shelf", get(|| async { Html(SHELF) }))
        .route("/phone", get(|| async { Html(PHONE) }))
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;")
}

const SEARCH: &str = r#"<!doctype html><html lang=en><title>Tea search</title>
<h1>Tea search</h1>
<form action=/search/results role=search>
<label for=q>Find a tea</label> <input id=q name=q type=search autocomplete=off>
<label>Sort by <select id=sort name=sort><option value=name>Name<option value=price>Price</select></label>
<button id=go>Search</button>
</form>
<ul id=hints aria-label=Hints></ul>
<script>
// Hints come late, as from a server.
document.querySelector('#q').addEventListener('input', (event) => {
  setTimeout(() => {
    document.querySelector('#hints').innerHTML = event.target.value.length > 1 ? '<li>SeenRequest Enter to search' : '';
  }, 120);
});
</script>"#;

async fn results(Query(query): Query<Fields>) -> Html<String> {
    let text = query.get("q").map(|q| q.to_lowercase()).unwrap_or_default();
    let by_price = query.get("sort").is_some_and(|sort| sort == "price");
    let page: usize = query.get("page").and_then(|page| page.parse().ok()).unwrap_or(1);
    let mut found: Vec<_> = TEAS.iter().filter(|tea| tea.0.to_lowercase().contains(&text)).collect();
    if by_price {
        found.sort_by_key(|tea| tea.1);
    }
    let count = found.len();
    let shown: String = found.iter().skip((page - 1) * PAGE).take(PAGE).map(|tea| product(tea)).collect();
    let next = if page * PAGE < count {
        let sort = if by_price { "price" } else { "name" };
        format!(
            r#"<a rel=next href="/search/results?q={}&amp;sort={sort}&amp;page={}">Next page</a>"#,
            escape(&text),
            page + 1
        )
    } else {
        "<span class=disabled>Next page</span>".to_owned()
    };
    Html(format!(
        r#"<!doctype html><html lang=en><title>Teas: {text}</title>
<meta name=description content="Teas to drink"><meta property="og:title" content="Teas"><meta property="og:type" content=website>
<script type="application/ld+json">{{"@type": "ItemList", "numberOfItems": {count}}}</script>
<h1>Teas</h1><p id=count>{count} teas</p><ol id=results>{shown}</ol><nav>{next}</nav>
<table id=prices><thead><tr><th>Tea<th>Price</thead><tbody>{}</tbody></table>"#,
        found.iter().map(|tea| format!("<tr><td>{}<td>{}", tea.0, price(tea.1))).collect::<String>(),
        text = escape(&text),
    ))
}

fn price(cents: u32) -> String {
    format!("€ {},{:02}", cents / 100, cents % 100)
}

fn product(tea: &(&str, u32, bool, &str)) -> String {
    let (name, cents, there, picked) = tea;
    let stock = if *there { "In stock" } else { "Sold out" };
    let slug = name.to_lowercase().replace(' ', "-");
    format!(
        r#"<li class=product data-sku="T-{cents:04}"><h2><a href="/tea/{slug}">{name}</a></h2>
<span class=price>{}</span> <span class=stock>{stock}</span> <time datetime={picked}>picked</time>
<ul class=tags><li>tea<li>{slug}</ul>"#,
        price(*cents)
    )
}

/// Cards with a shadow root each, and in it a button with one of its own.
const SHOP: &str = r#"<!doctype html><html lang=en><title>Tea shop</title>
<header><h1>Tea shop</h1> <a id=checkout href=/shop/checkout>Checkout (<span id=count>0</span>)</a></header>
<div id=cookies><p>This shop has cookies. <button id=fine>Fine</button></div>
<div style="height:1200px"></div>
<tea-card name=Assam></tea-card><tea-card name=Sencha></tea-card>
<script>
document.querySelector('#fine').onclick = () => document.querySelector('#cookies').remove();
customElements.define('buy-button', class extends HTMLElement {
  connectedCallback() {
    const root = this.attachShadow({ mode: 'open' });
    root.innerHTML = '<button type=button>Add to cart</button>';
    root.querySelector('button').onclick = () => {
      const cart = [...(sessionStorage.cart ?? '').split(',').filter(Boolean), this.getAttribute('name')];
      sessionStorage.cart = cart.join(',');
      document.querySelector('#count').textContent = cart.length;
    };
  }
});
customElements.define('tea-card', class extends HTMLElement {
  connectedCallback() {
    const name = this.getAttribute('name');
    const root = this.attachShadow({ mode: 'open' });
    root.innerHTML = `<h2>${name}</h2><label>Notes <input class=notes></label><buy-button name="${name}"></buy-button>`;
  }
});
</script>"#;

const CHECKOUT: &str = r#"<!doctype html><html lang=en><title>Checkout</title>
<style>iframe { margin-left: 60px; border: 5px solid #789; width: 500px; height: 260px }</style>
<h1>Checkout</h1><p id=cart></p>
<form id=address><label>Street <input name=street></label> <label>Country
<select name=country><option value="">Choose<option value=de>Germany<option value=pt>Portugal</select></label>
<label><input type=checkbox name=terms> I agree</label></form>
<iframe title=Payment src=/shop/payment></iframe>
<script>document.querySelector('#cart').textContent = sessionStorage.cart ?? 'nothing';</script>"#;

/// Pays once the card's number has come from the frame inside.
const PAYMENT: &str = r#"<!doctype html><html lang=en><title>Payment</title>
<h2>Payment</h2><iframe title=Card src=/shop/card style="width:300px;height:90px"></iframe>
<p><button id=pay disabled>Pay now</button></p>
<script>
let card = '';
addEventListener('message', (event) => {
  card = event.data;
  document.querySelector('#pay').disabled = card.length < 8;
});
document.querySelector('#pay').onclick = () => {
  const form = new FormData(parent.document.querySelector('#address'));
  const query = new URLSearchParams([...form, ['cart', sessionStorage.cart ?? ''], ['card', card.slice(-4)]]);
  parent.location.href = '/shop/thanks?' + query;
};
</script>"#;

const CARD: &str = r#"<!doctype html><html lang=en><title>Card</title>
<label>Card number <input id=number inputmode=numeric></label>
<script>document.querySelector('#number').oninput = (event) => parent.postMessage(event.target.value, '*');</script>"#;

async fn thanks(Query(query): Query<Fields>) -> Html<String> {
    let lines: String = query
        .iter()
        .map(|(name, value)| format!("<dt>{}<dd id=\"{}\">{}", escape(name), escape(name), escape(value)))
        .collect();
    Html(format!("<!doctype html><html lang=en><title>Thank you</title><h1>Thank you</h1><dl>{lines}</dl>"))
}

const LOGIN: &str = r#"<!doctype html><html lang=en><title>Log in</title><h1>Log in</h1>
<form method=post action=/login><label for=user>User name</label> <input id=user name=user> <button>Next</button></form>"#;

/// The fields of a form that was posted, which are written as those in an address are.
fn fields(body: &str) -> Fields {
    let uri: Uri = format!("/?{body}").parse().unwrap_or_default();
    Query::try_from_uri(&uri).map(|Query(fields)| fields).unwrap_or_default()
}

async fn password(body: String) -> Html<String> {
    let fields = fields(&body);
    password_page(fields.get("user").map_or("", String::as_str), "")
}

fn password_page(user: &str, problem: &str) -> Html<String> {
    Html(format!(
        r#"<!doctype html><html lang=en><title>Password</title><h1>Hello, {user}</h1><p role=alert>{problem}</p>
<form method=post action=/login/password><input type=hidden name=user value="{user}">
<label for=password>Password</label> <input id=password name=password type=password> <button>Log in</button></form>"#,
        user = escape(user)
    ))
}

async fn log_in(body: String) -> Response {
    let fields = fields(&body);
    let user = fields.get("user").map_or("", String::as_str);
    if fields.get("password").map(String::as_str) != Some(PASSWORD) {
        return password_page(user, "This is not the password").into_response();
    }
    let mut reply = (StatusCode::SEE_OTHER, [(LOCATION, "/account")]).into_response();
    if let Ok(cookie) = format!("account={user}; Path=/; HttpOnly").parse() {
        reply.headers_mut().append(SET_COOKIE, cookie);
    }
    reply
}

async fn account(headers: HeaderMap) -> Html<String> {
    let cookies = headers.get(COOKIE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let user = cookies.split("; ").find_map(|pair| pair.strip_prefix("account=")).unwrap_or("nobody");
    Html(format!(
        r#"<!doctype html><html lang=en><title>Account</title><h1>Account</h1><p id=who>Signed in as {}</p>
<table id=orders><caption>Orders</caption><thead><tr><th>Number<th>Day<th>Total</thead><tbody>
<tr><td>1001<td>2024-05-01<td>€ 12,90<tr><td>1002<td>2024-06-15<td>€ 1.049,00</tbody></table>"#,
        escape(user)
    ))
}

/// Everything that a pointer and a keyboard can do, written down in `#log`.
const STAGE: &str = r#"<!doctype html><html lang=en><title>Stage</title>
<style>body { margin: 0 } #pad { width: 300px; height: 120px; background: #def } #scroller { width: 200px; height: 80px; overflow: auto }</style>
<div id=pad tabindex=0>Pad</div>
<div id=scroller><div style="width:900px;height:900px">Tall</div></div>
<input id=text aria-label=Text><textarea id=area aria-label=Area></textarea><input id=day type=date aria-label=Day>
<input id=range type=range min=0 max=10><div id=rich contenteditable>old</div>
<input id=files type=file multiple aria-label=Files><p id=chosen></p>
<button id=late disabled>Late</button><p id=moved></p>
<button id=hidden style="display:none">Hidden</button>
<button id=ask onclick="document.querySelector('#log').textContent += confirm('Sure?') + ' '">Ask</button>
<a id=window href=/child target=_blank>Window</a> <a id=part href=#part>Part</a>
<p id=log></p>
<div style="height:3000px"></div><button id=far onclick="log('far')">Far</button>
<script>
const log = (text) => { document.querySelector('#log').textContent += text + ' '; };
const pad = document.querySelector('#pad');
pad.addEventListener('mousedown', (e) => log(`down${e.button}@${e.clientX},${e.clientY}${e.shiftKey ? '+shift' : ''}`));
pad.addEventListener('dblclick', () => log('double'));
pad.addEventListener('contextmenu', (e) => { e.preventDefault(); log('menu'); });
pad.addEventListener('mouseenter', () => log('enter'));
document.addEventListener('keydown', (e) => {
  if (e.target !== pad && e.target !== document.body) return;
  log(`key:${e.key}`);
  // How far and how fast an arrow scrolls is the browser's own, and would move the pad under the places written down.
  if (e.key.startsWith('Arrow')) e.preventDefault();
});
document.querySelector('#files').onchange = (e) => {
  document.querySelector('#chosen').textContent = [...e.target.files].map((file) => `${file.name}:${file.size}`).join(' ');
};
document.querySelector('#late').onclick = () => log('late');
setTimeout(() => { document.querySelector('#late').disabled = false; window.ready = true; }, 400);
addEventListener('scroll', () => { document.querySelector('#moved').textContent = `${scrollX},${scrollY}`; });
</script>"#;

/// Books in pages that a button turns, without another address; each comes late. `?gone` takes the button away at the
/// end, else it is disabled.
const SHELF: &str = r#"<!doctype html><html lang=en><title>Shelf</title><h1>Shelf</h1><ol id=books></ol>
<button id=more type=button>More</button><script>
const books = ['Emma', 'Ulysses', 'Dune', 'Solaris', 'Momo'];
const more = document.querySelector('#more');
let page = 0;
const show = () => {
  const shown = books.slice(page * 2, page * 2 + 2);
  document.querySelector('#books').innerHTML = shown.map((book) => `<li class=book><b>${book}</b>`).join('');
  if (page < 2) return;
  if (location.search === '?gone') more.remove(); else more.disabled = true;
};
more.onclick = () => { page += 1; setTimeout(show, 150); };
show();
</script>"#;

/// What a page on a phone can tell of it.
const PHONE: &str = r#"<!doctype html><html lang=en><title>Phone</title><meta name=viewport content="width=device-width">
<button id=tap style="width:200px;height:80px">Tap</button><p id=told></p><p id=taps></p><script>
const told = document.querySelector('#told');
const matches = (query) => matchMedia(query).matches;
told.textContent = [innerWidth, innerHeight, devicePixelRatio, 'ontouchstart' in window, matches('(pointer: coarse)'),
  screen.orientation?.type].join(' ');
document.querySelector('#tap').addEventListener('pointerdown', (event) => {
  document.querySelector('#taps').textContent += event.pointerType + ' ';
});
</script>"#;

const ARTICLE: &str = r#"<!doctype html><html lang=en><title>On tea</title>
<link rel=canonical href=/article><meta name=author content="Ada"><meta name=keywords content="tea, water">
<meta property="og:title" content="On tea"><meta property="og:image" content="/a.png"><meta property="og:image" content="/b.png">
<script type="application/ld+json">{"@context": "https://schema.org", "@graph": [{"@type": "Article", "headline": "On tea"}]}</script>
<script type="application/ld+json">{ broken</script>
<article><h1>On  tea</h1><p class=by>By <b>Ada</b>, <time datetime="2024-02-29T10:30:00+01:00">last winter</time></p>
<p class=intro>Boil<br>water.<!-- a comment --></p><style>p { color: black }</style>
<p class=count>It has 1.234 words and code SKU-77 and SKU-78.</p><input id=yes type=checkbox checked><input id=no type=checkbox>
<a href=../form#x>Form</a> <a href="https://other.test/x?y=1&amp;z=2" rel=nofollow>Other</a></article>
<table><tr><th colspan=2>Both<th>One<tr><td rowspan=2>a<td>b<td>c<tr><td>d<td>e</table>
<my-note><template shadowrootmode=open><p>Shaded <slot></slot></p></template>light</my-note>"#;
