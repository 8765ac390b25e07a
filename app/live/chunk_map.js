// The chunk map: a grid of buttons, one per tile. An autorefresh keeps the focus, the selection and the brush.
// data: {
//   tiles: [[first, last, state, done, name, more, digit, shade], …]  digit and shade only on a heat map, null without a value
//   states: [[letter, name], …], selected: [first, last] | null, of: the table,
//   scale: null | { title, stops: [[digit, shade, label, range], …], note: chunks without a value },
//   brush: null | { tiles: [[first, last], …], serial }
// }

export default function (component) {
  const { data, parentElement, setTriggerValue } = component
  const grid = parentElement.querySelector("#grid")
  if (!grid || !data) return
  while (grid.children.length > data.tiles.length) grid.lastChild.remove()
  while (grid.children.length < data.tiles.length) grid.appendChild(makeTile())
  const brush = currentBrush(grid, data)
  data.tiles.forEach((tile, n) => drawTile(grid.children[n], tile, data))
  showBrush(grid, brush)
  drawScale(parentElement.querySelector("#scale"), data.scale)
  const chosen = grid.querySelector(".chosen") || grid.querySelector('[tabindex="0"]') || grid.firstChild
  for (const tile of grid.querySelectorAll('[tabindex="0"]')) tile.tabIndex = -1
  if (chosen) chosen.tabIndex = 0

  const send = () => {
    brush.serial += 1
    showBrush(grid, brush)
    setTriggerValue("brushed", { tiles: brush.tiles, serial: brush.serial })
  }
  const pick = tile => {
    Object.assign(brush, { tiles: [], kept: [], anchor: ends(tile)[0], serial: brush.serial + 1 })
    showBrush(grid, brush)
    setTriggerValue("picked", [...ends(tile), brush.serial])
  }
  grid.onclick = event => {
    const tile = event.target.closest("button")
    if (!tile || brush.dragged) return
    if (!data.brush) return pick(tile)
    if (event.shiftKey) extend(grid, brush, tile)
    else if (event.ctrlKey || event.metaKey) toggle(brush, tile)
    else return pick(tile)
    send()
  }
  grid.onkeydown = event => {
    const from = event.target.closest("button")
    if (event.key === "Escape" && brush.tiles.length) {
      Object.assign(brush, { tiles: [], kept: [], anchor: ends(from)[0] })
      return send()
    }
    const to = moveFocus(grid, event)
    if (!to || !event.shiftKey || !data.brush) return
    if (!brush.tiles.length) brush.anchor = ends(from)[0]
    extend(grid, brush, to)
    send()
  }
  if (data.brush) drag(grid, brush, send)
}

// The brush of the browser, unless the server has a newer one. `anchor` is the first chunk of the tile
// where a range begins; `kept` are the tiles that were brushed before that range.
function currentBrush(grid, data) {
  const known = data.brush || { tiles: [], serial: 0 }
  if (!grid.brush || grid.brush.of !== data.of) grid.brush = { of: data.of, tiles: [], kept: [], anchor: null, serial: -1 }
  if (known.serial > grid.brush.serial) Object.assign(grid.brush, { tiles: known.tiles, kept: [], serial: known.serial })
  return grid.brush
}

function extend(grid, brush, to) {
  const all = Array.from(grid.children)
  const anchor = all.find(tile => ends(tile)[0] === brush.anchor) || grid.querySelector(".chosen") || to
  const [first, last] = [all.indexOf(anchor), all.indexOf(to)].sort((a, b) => a - b)
  brush.anchor = ends(anchor)[0]
  brush.tiles = [...brush.kept, ...all.slice(first, last + 1).map(ends)]
}

function toggle(brush, tile) {
  const [first, last] = ends(tile)
  const others = brush.tiles.filter(([from, to]) => to < first || from > last)
  brush.tiles = others.length < brush.tiles.length ? others : [...brush.tiles, [first, last]]
  Object.assign(brush, { kept: [...brush.tiles], anchor: first })
}

function drag(grid, brush, send) {
  grid.onpointerdown = event => {
    const tile = event.target.closest("button")
    brush.dragged = false
    brush.from = tile && event.button === 0 && !event.shiftKey && !event.ctrlKey && !event.metaKey ? tile : null
  }
  grid.onpointermove = event => {
    const tile = event.target.closest("button")
    if (!brush.from || !tile || !(event.buttons & 1) || (tile === brush.from && !brush.dragged)) return
    if (!brush.dragged) Object.assign(brush, { dragged: true, anchor: ends(brush.from)[0], kept: [] })
    extend(grid, brush, tile)
    showBrush(grid, brush)
  }
  // A click follows on the tile where the drag began and ended, before `dragged` is reset.
  const end = () => {
    if (brush.from && brush.dragged) send()
    brush.from = null
    setTimeout(() => (brush.dragged = false))
  }
  grid.onpointerup = grid.onpointerleave = grid.onpointercancel = end
}

function showBrush(grid, brush) {
  for (const tile of grid.children) {
    const [first, last] = ends(tile)
    const inside = brush.tiles.some(([from, to]) => first <= to && last >= from)
    tile.classList.toggle("brushed", inside)
    tile.setAttribute("aria-pressed", inside || tile.classList.contains("chosen") ? "true" : "false")
  }
}

function ends(tile) {
  return [Number(tile.dataset.first), Number(tile.dataset.last)]
}

function makeTile() {
  const tile = document.createElement("button")
  tile.type = "button"
  tile.tabIndex = -1
  return tile
}

function drawTile(tile, [first, last, state, done, name, more, digit, shade], data) {
  const [letter, stateName] = data.states[state]
  const chosen = data.selected && first <= data.selected[1] && last >= data.selected[0]
  const text = digit ?? letter
  const title = more ? `${name}\n${more}` : name
  tile.dataset.first = first
  tile.dataset.last = last
  if (tile.textContent !== text) tile.textContent = text
  if (tile.title !== title) tile.title = title
  tile.setAttribute("aria-label", name)
  const look = !data.scale ? stateName : digit == null ? "without" : `heat shade${shade}`
  tile.className = look + (chosen ? " chosen" : "")
  if (first === last) tile.style.removeProperty("--done")
  else tile.style.setProperty("--done", `${(done >= 1 ? 100 : Math.min(done * 100, 99.9)).toFixed(1)}%`)
}

function drawScale(place, scale) {
  const known = JSON.stringify(scale)
  if (place.dataset.known === known) return
  place.dataset.known = known
  place.hidden = !scale
  place.replaceChildren()
  if (!scale) return
  const heading = document.createElement("span")
  heading.className = "heading"
  heading.textContent = scale.title
  const stops = document.createElement("ol")
  stops.setAttribute("aria-label", scale.title)
  for (const [digit, shade, label, range] of scale.stops) stops.appendChild(makeStop(`heat shade${shade}`, digit, label, range))
  place.append(heading)
  if (scale.stops.length) place.append(stops)
  if (!scale.note) return
  const none = document.createElement("span")
  none.className = "none"
  none.textContent = scale.note
  const swatch = document.createElement("i")
  swatch.className = "without"
  swatch.setAttribute("aria-hidden", "true")
  none.prepend(swatch)
  place.append(none)
}

function makeStop(look, digit, label, range) {
  const stop = document.createElement("li")
  stop.title = `${digit}: ${range}`
  const swatch = document.createElement("b")
  swatch.className = look
  swatch.textContent = digit
  const text = document.createElement("span")
  text.textContent = label
  stop.append(swatch, text)
  return stop
}

function moveFocus(grid, event) {
  const tiles = Array.from(grid.children)
  const at = tiles.indexOf(event.target)
  if (at < 0) return null
  const perRow = tiles.filter(tile => tile.offsetTop === tiles[0].offsetTop).length
  const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: perRow, ArrowUp: -perRow }
  const extremes = { Home: 0, End: tiles.length - 1 }
  const next = event.key in extremes ? extremes[event.key] : at + (steps[event.key] ?? NaN)
  if (!(next >= 0 && next < tiles.length)) return null
  event.preventDefault()
  tiles[at].tabIndex = -1
  tiles[next].tabIndex = 0
  tiles[next].focus()
  return tiles[next]
}
