// The lines that a program needs: for a session that there is, and to make one with the same options. Pure.

import type { SessionDetail } from './session-record';

export interface Client {
  id: string;
  name: string;
  language: 'js' | 'python' | 'rust' | 'sh';
  /** Which create call makes its sessions. */
  kind: 'devtools' | 'webdriver';
  engines: readonly string[];
}

export const CLIENTS: readonly Client[] = [
  { id: 'playwright', name: 'Playwright', language: 'js', kind: 'devtools', engines: ['chromium', 'webkit'] },
  { id: 'puppeteer', name: 'Puppeteer', language: 'js', kind: 'devtools', engines: ['chromium', 'firefox'] },
  { id: 'playwright-python', name: 'Playwright (Python)', language: 'python', kind: 'devtools', engines: ['chromium'] },
  { id: 'selenium-python', name: 'Selenium (Python)', language: 'python', kind: 'webdriver', engines: ['chromium', 'firefox', 'webkit'] },
  { id: 'selenium', name: 'Selenium (Node)', language: 'js', kind: 'webdriver', engines: ['chromium', 'firefox', 'webkit'] },
  { id: 'fantoccini', name: 'fantoccini', language: 'rust', kind: 'webdriver', engines: ['chromium', 'firefox', 'webkit'] },
  { id: 'curl', name: 'curl', language: 'sh', kind: 'devtools', engines: ['chromium', 'firefox', 'webkit'] },
];

/** The clients that can drive this engine by this kind of session. */
export function fitting(engine: string, kind: string): Client[] {
  return CLIENTS.filter((client) => client.engines.includes(engine) && (client.kind === kind || client.id === 'curl'));
}

const OPTIONS: Record<string, string> = { chromium: 'ChromeOptions', firefox: 'FirefoxOptions', webkit: 'WebKitGTKOptions' };
const SELENIUM: Record<string, string> = { chromium: 'chrome', firefox: 'firefox', webkit: 'MiniBrowser' };

/** Text as a literal that JavaScript, Python and Rust read alike. */
const quoted = (text: string): string => JSON.stringify(text).replace(/[\u007f-\uffff]/g, (letter) => letter);

/** Lines that connect to a session: `url` and `headers` are expressions of the client's language. */
function connect(client: Client, engine: string, url: string, headers: string): string {
  switch (client.id) {
    case 'playwright':
      return engine === 'webkit'
        ? `const browser = await webkit.connectOverCDP(${url}, { headers: ${headers} });\nconst [page] = browser.contexts()[0].pages();`
        : `const browser = await chromium.connectOverCDP(${url});\nconst page = await browser.newPage();`;
    case 'puppeteer': {
      const options = engine === 'firefox' ? `{ browserWSEndpoint: ${url}, protocol: 'webDriverBiDi' }` : `{ browserWSEndpoint: ${url} }`;
      return `const browser = await puppeteer.connect(${options});\nconst page = await browser.newPage();`;
    }
    case 'playwright-python':
      return `with sync_playwright() as playwright:\n    browser = playwright.chromium.connect_over_cdp(${url})\n    page = browser.new_page()\n    page.goto("https://example.com/")\n    print(page.title())`;
    case 'selenium-python':
      return `driver = webdriver.Remote(${url}, options=webdriver.${OPTIONS[engine]}())\ndriver.get("https://example.com/")\nprint(driver.title)\ndriver.quit()`;
    case 'selenium':
      return `const driver = await new Builder().usingServer(${url}).forBrowser('${SELENIUM[engine]}').build();\nawait driver.get('https://example.com/');\nconsole.log(await driver.getTitle());\nawait driver.quit();`;
    case 'fantoccini':
      return `let client = ClientBuilder::new(HttpConnector::new()).connect(${url}).await?;\nclient.goto("https://example.com/").await?;\nprintln!("{}", client.title().await?);\nclient.close().await?;`;
    default:
      return '';
  }
}

function imports(client: Client, engine: string): string {
  switch (client.id) {
    case 'playwright':
      return `import { ${engine === 'webkit' ? 'webkit' : 'chromium'} } from 'playwright-core';`;
    case 'puppeteer':
      return "import puppeteer from 'puppeteer-core';";
    case 'playwright-python':
      return 'from playwright.sync_api import sync_playwright';
    case 'selenium-python':
      return 'from selenium import webdriver';
    case 'selenium':
      return "import { Builder } from 'selenium-webdriver';";
    case 'fantoccini':
      return 'use fantoccini::ClientBuilder;\nuse hyper_util::client::legacy::connect::HttpConnector;';
    default:
      return '';
  }
}

const USE = "await page.goto('https://example.com/');\nconsole.log(await page.title());\nawait browser.close();";

const uses = (client: Client): string => (client.id === 'playwright' || client.id === 'puppeteer' ? `\n${USE}` : '');

/** Lines to paste for a session that lives. */
export function linesFor(client: Client, session: SessionDetail): string {
  const engine = session.browser_type;
  const url = session.connect_url ?? session.websocket_url ?? '';
  if (client.id === 'curl') return url.startsWith('http') ? `curl ${quoted(`${url}status`)}` : `# What speaks ${session.protocol} connects to\n${url}`;
  const headers = JSON.stringify(session.connect_headers ?? {});
  return `${imports(client, engine)}\n\n${connect(client, engine, quoted(url), headers)}${uses(client)}\n`;
}

/** A program that makes a session with these options, and uses it. The key stays in the environment. */
export function programFor(client: Client, base: string, kind: string, body: Record<string, unknown>): string {
  const engine = String(body['browser_type'] ?? 'chromium');
  const path = kind === 'webdriver' ? 'sessions/webdriver/create' : 'sessions/create';
  const field = kind === 'webdriver' ? 'connect_url' : 'websocket_url';
  const address = `${base}${path}`;
  const text = JSON.stringify(body);
  switch (client.language) {
    case 'sh':
      return `curl -X POST -H "service-secret-key: $WARMPOOL_SECRET_KEY" -H 'content-type: application/json' \\\n  -d '${text.replaceAll("'", `'\\''`)}' \\\n  '${address}'\n`;
    case 'js':
      return `${imports(client, engine)}

const reply = await fetch('${address}', {
  method: 'POST',
  headers: { 'content-type': 'application/json', 'service-secret-key': process.env.WARMPOOL_SECRET_KEY },
  body: JSON.stringify(${JSON.stringify(body, null, 2).replaceAll('\n', '\n  ')}),
});
if (!reply.ok) throw new Error(await reply.text());
const session = await reply.json();
${connect(client, engine, `session.${field}`, 'session.connect_headers')}${uses(client)}
`;
    case 'python':
      return `import json, os, urllib.request

${imports(client, engine)}

request = urllib.request.Request(
    "${address}",
    data=${quoted(text)}.encode(),
    headers={"content-type": "application/json", "service-secret-key": os.environ["WARMPOOL_SECRET_KEY"]},
)
with urllib.request.urlopen(request) as reply:
    session = json.load(reply)

${connect(client, engine, `session["${field}"]`, '')}
`;
    case 'rust':
      return `${imports(client, engine)}\n\n// POST ${text}\n// to ${address}\n// with the header service-secret-key; then:\n${connect(client, engine, `session["${field}"].as_str().unwrap()`, '')}\n`;
  }
}
