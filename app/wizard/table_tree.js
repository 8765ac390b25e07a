// The table picker: databases and their tables with checkboxes, a search, and bulk buttons. The search runs in the browser.
// data: { databases: [[name, [[table, chosen, rows, bytes, key, engine, [[label, tone, meaning]…]]…]]…], ack: {mount: number}, open }
// Clicks are kept in a log that Python acknowledges by number, so that reruns neither lose nor repeat one.
const ROWS_DRAWN = 1500
const OPEN_UP_TO = 400
const HEADS = [["name", "Table"], ["rows", "Rows"], ["bytes", "Size"], ["key", "Key"], ["engine", "Engine"], ["risk", "Risks"]]

export default function (component) {
  const { data, parentElement, setStateValue, setTriggerValue } = component
  const root = parentElement.querySelector("#tree")
  if (!root || !data) return
  const view = (root.view ??= {
    mount: Math.random().toString(36).slice(2), number: 0, log: [], search: "", only: "all", sort: "name", closed: null, more: 0,
  })
  view.data = data
  view.emit = (kind, names, on) => {
    view.log = [...view.log, [++view.number, kind, names, on]]
    setStateValue("clicks", { mount: view.mount, log: view.log })
    draw(root)
  }
  view.show = name => setTriggerValue("shown", name)
  view.log = view.log.filter(([number]) => number > (data.ack[view.mount] ?? 0))
  if (!view.closed) {
    const tables = data.databases.reduce((sum, [, some]) => sum + some.length, 0)
    view.closed = new Set(tables > OPEN_UP_TO ? data.databases.map(([name]) => name) : [])
  }
  if (!root.querySelector(".tools")) build(root)
  draw(root)
}

function build(root) {
  const view = root.view
  const tools = add(root, "div", "tools")
  const search = add(tools, "input", "search")
  search.type = "search"
  search.placeholder = "Search tables: orders, shop.*, *_20??"
  search.setAttribute("aria-label", "Search tables")
  search.oninput = () => { view.search = search.value.trim(); draw(root) }
  const only = add(tools, "select")
  only.setAttribute("aria-label", "Show")
  for (const [value, text] of [["all", "All"], ["chosen", "Chosen"], ["others", "Not chosen"], ["risks", "With risks"]]) {
    const option = add(only, "option", "", text)
    option.value = value
  }
  only.onchange = () => { view.only = only.value; draw(root) }
  for (const [on, name] of [[1, "take"], [0, "drop"]]) {
    const button = add(tools, "button", name)
    button.type = "button"
    button.onclick = () => view.emit("tables", view.seen, on)
  }
  const glob = add(root, "div", "glob")
  add(glob, "span", "", "Save the search as a glob, which also matches tables created later:")
  for (const [on, text] of [[1, "Include glob"], [0, "Exclude glob"]]) {
    const button = add(glob, "button", "", text)
    button.type = "button"
    button.onclick = () => {
      view.emit("glob", globOf(view.search), on)
      view.search = search.value = ""
      draw(root)
    }
  }
  const head = add(root, "div", "row head")
  for (const [key, title] of HEADS) {
    const cell = add(head, "button", key, title)
    cell.type = "button"
    cell.title = `Sort by ${title.toLowerCase()}`
    cell.onclick = () => { view.sort = key; draw(root) }
  }
  const list = add(root, "div", "list")
  list.setAttribute("role", "group")
  list.setAttribute("aria-label", "Tables")
  list.onkeydown = event => keys(root, event)
}

function chosenOf(view) {
  // The server's selection, plus the clicks that it has not acknowledged yet.
  const chosen = new Set()
  for (const [database, tables] of view.data.databases)
    for (const [table, is] of tables) if (is) chosen.add(id(database, table))
  for (const [, kind, names, on] of view.log) {
    if (kind === "glob") continue
    const some = kind === "database"
      ? (view.data.databases.find(([name]) => name === names)?.[1] ?? []).map(([table]) => [names, table])
      : names
    for (const [database, table] of some) chosen[on ? "add" : "delete"](id(database, table))
  }
  return chosen
}

const id = (database, table) => JSON.stringify([database, table])

const isGlob = text => /[*?]/.test(text)

// A glob of the spec: a search without a dot matches tables of any database.
const globOf = text => (text.includes(".") ? text : `*.${text}`)

function matcher(text, anyCase) {
  // A glob is matched as in the engine, with case if the server minds it; anything else is a substring search.
  if (!isGlob(text)) return (database, table) => `${database}.${table}`.toLowerCase().includes(text.toLowerCase())
  const source = globOf(text)
    .replace(/[.+^${}()|\\]/g, "\\$&").replace(/\[!/g, "[^").replace(/\*/g, ".*").replace(/\?/g, ".")
  try {
    const pattern = new RegExp(`^${source}$`, anyCase ? "i" : "")
    return (database, table) => pattern.test(`${database}.${table}`)
  } catch {
    return () => false
  }
}

const ORDER = {
  name: (a, b) => (a[0] < b[0] ? -1 : 1), rows: (a, b) => b[2] - a[2], bytes: (a, b) => b[3] - a[3],
  key: (a, b) => (a[4] < b[4] ? -1 : 1), engine: (a, b) => (a[5] < b[5] ? -1 : 1), risk: (a, b) => b[6].length - a[6].length,
}

function draw(root) {
  const view = root.view, list = root.querySelector(".list"), chosen = chosenOf(view), fits = matcher(view.search, view.data.any_case)
  const focused = root.getRootNode().activeElement?.dataset?.id
  const narrowed = view.search || view.only !== "all"
  view.seen = []
  let drawn = 0, hidden = 0
  const parts = document.createDocumentFragment()
  for (const [database, tables] of view.data.databases) {
    const shown = tables.filter(([table, , , , , , risks]) => {
      const is = chosen.has(id(database, table))
      if (view.only === "chosen" && !is) return false
      if (view.only === "others" && is) return false
      if (view.only === "risks" && !risks.length) return false
      return fits(database, table)
    }).sort(ORDER[view.sort])
    if (!shown.length) continue
    shown.forEach(([table]) => view.seen.push([database, table]))
    const open = view.search ? true : !view.closed.has(database)
    parts.append(databaseRow(view, root, database, tables, chosen, open))
    if (!open) continue
    for (const one of shown) {
      if (drawn++ < ROWS_DRAWN) parts.append(tableRow(view, database, one, chosen.has(id(database, one[0]))))
      else hidden++
    }
  }
  if (!view.seen.length) {
    const none = add(parts, "div", "none", view.data.databases.length ? "No table matches. " : "No table is visible.")
    if (narrowed) {
      const clear = add(none, "button", "", "Clear the search")
      clear.type = "button"
      clear.onclick = () => {
        view.search = root.querySelector(".search").value = ""
        view.only = root.querySelector("select").value = "all"
        draw(root)
      }
    }
  }
  if (hidden) add(parts, "div", "none", `${hidden.toLocaleString("en")} more are not shown. Narrow the search.`)
  const top = list.scrollTop
  list.replaceChildren(parts)
  list.scrollTop = top
  for (const head of root.querySelectorAll(".head button")) head.classList.toggle("sorted", head.classList.contains(view.sort))
  root.querySelector(".glob").hidden = !isGlob(view.search)
  const word = narrowed ? "shown" : "tables"
  const [take, drop] = ["take", "drop"].map(name => root.querySelector(`button.${name}`))
  take.textContent = `Choose ${view.seen.length.toLocaleString("en")} ${word}`
  drop.textContent = narrowed ? "Clear shown" : "Clear all"
  take.disabled = !view.seen.length || view.seen.every(name => chosen.has(id(...name)))
  drop.disabled = !view.seen.some(name => chosen.has(id(...name)))
  const boxes = list.querySelectorAll("input")
  boxes.forEach((box, n) => { box.tabIndex = n ? -1 : 0 })
  const again = focused && [...list.querySelectorAll("[data-id]")].find(box => box.dataset.id === focused)
  if (again) { if (boxes[0]) boxes[0].tabIndex = -1; again.tabIndex = 0; again.focus({ preventScroll: true }) }
}

function databaseRow(view, root, database, tables, chosen, open) {
  const row = add(null, "div", "row database")
  const count = tables.filter(([table]) => chosen.has(id(database, table))).length
  const name = add(row, "div", "name")
  const fold = add(name, "button", "fold", open ? "▾" : "▸")
  fold.type = "button"
  fold.tabIndex = -1
  fold.setAttribute("aria-label", `${open ? "Close" : "Open"} ${database}`)
  fold.onclick = () => { view.closed[open ? "add" : "delete"](database); draw(root) }
  const label = add(name, "label")
  const box = checkbox(label, count === tables.length, ["", database], () => view.emit("database", database, box.checked ? 1 : 0))
  box.indeterminate = count > 0 && count < tables.length
  box.setAttribute("aria-label", `All tables of ${database}`)
  box.dataset.database = database
  add(label, "b", "", database)
  add(row, "span", "count", `${count.toLocaleString("en")} of ${tables.length.toLocaleString("en")} chosen`)
  return row
}

function tableRow(view, database, [table, , rows, bytes, key, engine, risks], is) {
  const row = add(null, "div", view.data.open === `${database}.${table}` ? "row table open" : "row table")
  const name = add(row, "div", "name")
  const box = checkbox(name, is, [database, table], () => view.emit("tables", [[database, table]], box.checked ? 1 : 0))
  box.setAttribute("aria-label", `${database}.${table}`)
  const more = add(name, "button", "more", table)
  more.type = "button"
  more.tabIndex = -1
  more.title = `Columns and risks of ${database}.${table}`
  more.onclick = () => view.show(`${database}.${table}`)
  add(row, "span", "rows", short(rows))
  add(row, "span", "bytes", size(bytes))
  add(row, "span", "key", key || "none").title = key
  add(row, "span", "engine", engine)
  const badges = add(row, "span", "risk")
  for (const [label, tone, meaning] of risks) add(badges, "em", tone, label).title = meaning
  return row
}

function checkbox(parent, checked, name, onchange) {
  const box = add(parent, "input")
  box.type = "checkbox"
  box.checked = checked
  box.dataset.id = JSON.stringify(name)
  box.onchange = onchange
  return box
}

function short(value) {
  for (const [step, unit] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]])
    if (value >= step * 0.99995) return `${trim(value / step)}${unit}`
  return `${value}`
}

function size(value) {
  const [, number, unit] = short(value).match(/^([\d.]+)(.*)$/)
  return `${number} ${unit.toUpperCase()}B`
}

const trim = value => (value >= 100 ? value.toFixed(0) : value.toFixed(1).replace(/\.0$/, ""))

function keys(root, event) {
  const boxes = [...root.querySelectorAll(".list input")], at = boxes.indexOf(event.target)
  if (at < 0) return
  const row = event.target.closest(".row"), database = event.target.dataset.database
  if (event.key === "Enter" && !database) { event.preventDefault(); row.querySelector(".more").click(); return }
  if (database && (event.key === "ArrowRight" || event.key === "ArrowLeft")) {
    event.preventDefault()
    root.view.closed[event.key === "ArrowLeft" ? "add" : "delete"](database)
    draw(root)
    return
  }
  const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: 12, PageUp: -12 }
  const ends = { Home: 0, End: boxes.length - 1 }
  const wanted = event.key in ends ? ends[event.key] : at + (steps[event.key] ?? NaN)
  if (Number.isNaN(wanted)) return
  const next = Math.min(Math.max(wanted, 0), boxes.length - 1)
  event.preventDefault()
  boxes[at].tabIndex = -1
  boxes[next].tabIndex = 0
  boxes[next].focus()
}

function add(parent, tag, name = "", text = "") {
  const made = document.createElement(tag)
  if (name) made.className = name
  if (text) made.textContent = text
  parent?.append(made)
  return made
}
