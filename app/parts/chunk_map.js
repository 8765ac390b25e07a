// The chunk map: a grid of buttons, one per tile. An autorefresh keeps the focus and the selection.
// data: { tiles: [[first, last, state, done], …], states: [[letter, label], …], selected: [first, last] | null }
const STATES_DONE = 1

export default function (component) {
  const { data, parentElement, setTriggerValue } = component
  const grid = parentElement.querySelector("#grid")
  if (!grid || !data) return
  while (grid.children.length > data.tiles.length) grid.lastChild.remove()
  while (grid.children.length < data.tiles.length) grid.appendChild(makeTile())
  data.tiles.forEach((tile, n) => drawTile(grid.children[n], tile, data))
  const chosen = grid.querySelector(".chosen") || grid.querySelector('[tabindex="0"]') || grid.firstChild
  for (const tile of grid.querySelectorAll('[tabindex="0"]')) tile.tabIndex = -1
  if (chosen) chosen.tabIndex = 0
  grid.onclick = event => {
    const tile = event.target.closest("button")
    if (tile) setTriggerValue("picked", [Number(tile.dataset.first), Number(tile.dataset.last)])
  }
  grid.onkeydown = event => moveFocus(grid, event)
}

function makeTile() {
  const tile = document.createElement("button")
  tile.type = "button"
  tile.tabIndex = -1
  return tile
}

function drawTile(tile, [first, last, state, done], data) {
  const [letter, label, name] = data.states[state]
  const one = first === last
  const share = done >= STATES_DONE ? "100" : Math.min(done * 100, 99.9).toFixed(1)
  const title = one ? `Chunk ${first}: ${label}` : `Chunks ${first}–${last}: ${share}% read, ${label}`
  const chosen = data.selected && first <= data.selected[1] && last >= data.selected[0]
  tile.dataset.first = first
  tile.dataset.last = last
  if (tile.textContent !== letter) tile.textContent = letter
  if (tile.title !== title) tile.title = title
  tile.setAttribute("aria-label", title)
  tile.setAttribute("aria-pressed", chosen ? "true" : "false")
  tile.className = name + (chosen ? " chosen" : "")
  if (one) tile.style.removeProperty("--done")
  else tile.style.setProperty("--done", `${share}%`)
}

function moveFocus(grid, event) {
  const tiles = Array.from(grid.children)
  const at = tiles.indexOf(event.target)
  if (at < 0) return
  const perRow = tiles.filter(tile => tile.offsetTop === tiles[0].offsetTop).length
  const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: perRow, ArrowUp: -perRow }
  const ends = { Home: 0, End: tiles.length - 1 }
  const next = event.key in ends ? ends[event.key] : at + (steps[event.key] ?? NaN)
  if (!(next >= 0 && next < tiles.length)) return
  event.preventDefault()
  tiles[at].tabIndex = -1
  tiles[next].tabIndex = 0
  tiles[next].focus()
}
